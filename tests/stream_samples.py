"""The files of tests/fixtures/streams/ that can be read whole, and what is in them."""

from pathlib import Path

STREAMS = Path(__file__).resolve().parent / "fixtures" / "streams"
# What a page gets when a text is pasted into it.
PASTE = """(text) => {
  const data = new DataTransfer();
  data.setData("text/plain", text);
  // Firefox makes no ClipboardEvent with data.
  const event = new Event("paste", { bubbles: true, cancelable: true });
  Object.defineProperty(event, "clipboardData", { value: data });
  document.body.dispatchEvent(event);
}"""

# file: how it is named, its fidelity, its text in each channel, and how it ended
FILES = {
    "openai-completions.sse": ("OpenAI-compatible server, completions", "bytes", {"content": "Hi 🚀"}, "stop"),
    "openai-chat.sse": ("OpenAI, chat completions", "text", {"content": "你好, née 👩‍🚀!"}, "stop"),
    "openai-chat-logprobs.sse": ("OpenAI, chat completions", "bytes", {"content": "你好🚀"}, "stop"),
    "openai-chat-tools.sse": ("OpenAI, chat completions", "text", {"tool_call": '{"name": "weather", "arguments": {"city":"Zürich"}}'}, "tool_calls"),
    "openai-answer.json": ("OpenAI-compatible server, chat completions", "text", {"content": "All at once 🚀"}, "stop"),
    "openai-responses.sse": ("OpenAI, responses", "text", {"reasoning": "Thinking.", "content": "你好 🚀", "tool_call": '{"name": "", "arguments": {"a":1}}'}, "completed"),
    "deepseek-chat-reasoning.sse": ("OpenAI-compatible server, chat completions", "text", {"reasoning": "Hmm, 你好?", "content": "Yes 🚀"}, "stop"),
    "anthropic-messages.sse": ("Anthropic, messages", "text", {"reasoning": "Let me see.", "content": "Grüezi 👋", "tool_call": '{"name": "weather", "arguments": {"city":"Uri"}}'}, "tool_use"),
    "gemini.sse": ("Gemini", "text", {"reasoning": "I think.", "content": "ไทย 🇹🇭", "tool_call": '{"name": "f", "arguments": {"x":1}}'}, "STOP"),
    "gemini-array.json": ("Gemini", "text", {"reasoning": "I think.", "content": "ไทย 🇹🇭", "tool_call": '{"name": "f", "arguments": {"x":1}}'}, "STOP"),
    "ollama-chat.ndjson": ("Ollama, chat", "text", {"reasoning": "Hm.", "content": "こんにちは", "tool_call": '{"name": "f", "arguments": {"x":"é"}}'}, "stop"),
    "ollama-generate.ndjson": ("Ollama, generate", "text", {"content": "café"}, "length"),
    "llama-server.sse": ("llama-server, completion", "ids", {"content": "Hi🚀"}, "eos"),
    "llama-server-old.sse": ("llama-server before 2025 or llamafile, completion", "text", {"content": "Hi 🚀"}, "eos"),
    "llama-server-chat.sse": ("llama-server, chat completions", "text", {"reasoning": "Hm", "content": "你好"}, "length"),
    "vllm-completions.sse": ("vLLM, completions", "ids", {"content": "aé"}, "stop"),
    "tgi.sse": ("text-generation-inference, generate", "ids", {"content": "abé"}, "eos_token"),
    "sglang-generate.sse": ("SGLang, generate", "ids", {"content": "abé"}, "length"),
    "sglang-text.sse": ("SGLang, generate", "text", {"content": "我们 🚀"}, None),
    "ai-sdk.sse": ("AI SDK, UI messages", "text", {"reasoning": "Hm", "content": "नमस्ते"}, None),
    "curl-verbose.txt": ("OpenAI-compatible server, chat completions", "text", {"content": "你好"}, None),
    "terminal.log": ("OpenAI-compatible server, chat completions", "text", {"content": "Hello wrapped 你好 end"}, None),
    "chat.har": ("OpenAI-compatible server, chat completions", "text", {"content": "你好"}, None),
    "curl-trace.txt": ("OpenAI-compatible server, chat completions", "text", {"content": "né 你好 ok 😀"}, None),
    "curl-trace-ascii.txt": ("OpenAI-compatible server, chat completions", "text", {"content": "né 你好 ok 😀"}, None),
    "wireshark.txt": ("OpenAI-compatible server, chat completions", "text", {"content": "né 你好 ok 😀"}, None),
    "tcpdump.txt": ("OpenAI-compatible server, chat completions", "text", {"content": "né 駅は🚆"}, None),
    "bedrock-converse.bin": ("Amazon Bedrock, converse", "text", {"content": "né 駅は🚆"}, "end_turn"),
    "dify.sse": ("Dify", "text", {"content": "né 駅は🚆"}, "message_end"),
    "replicate.sse": ("Replicate", "text", {"content": "né 駅は🚆"}, "done"),
    "powershell.txt": ("OpenAI-compatible server, chat completions", "text", {"content": "é🚀ok"}, None),
}  # fmt: skip
