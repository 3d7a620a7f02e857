"""Streamlit's chat elements with an OpenAI-compatible engine, as in its tutorial.

Run it with `streamlit run … -- ENGINE`.
"""

import sys

import streamlit as st
from openai import OpenAI

client = OpenAI(base_url=f"{sys.argv[1]}/v1", api_key="none")
messages = st.session_state.setdefault("messages", [])
for message in messages:
    with st.chat_message(message["role"]):
        st.markdown(message["content"])
if prompt := st.chat_input("Message"):
    messages.append({"role": "user", "content": prompt})
    with st.chat_message("user"):
        st.markdown(prompt)
    with st.chat_message("assistant"):
        stream = client.chat.completions.create(
            model="recite", messages=messages, stream=True, temperature=0
        )
        messages.append({"role": "assistant", "content": st.write_stream(stream)})
