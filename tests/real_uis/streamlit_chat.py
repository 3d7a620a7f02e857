"""Streamlit's chat elements with an OpenAI-compatible engine, as in its tutorial.

Run it with `ENGINE=… streamlit run …`. `/?mode=detok` reads through ChatDeltas.
"""

import os

import streamlit as st
from openai import OpenAI

from detok_py.integrations.openai import ChatDeltas

client = OpenAI(base_url=f"{os.environ['ENGINE']}/v1", api_key="none")
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
        if st.query_params.get("mode") == "detok":
            stream = (delta.text for delta in ChatDeltas(stream, stop=["</s>"]))
        messages.append({"role": "assistant", "content": st.write_stream(stream)})
