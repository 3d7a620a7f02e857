/**
 * The formats in which the page can read a stream: the names of detok_py/formats/table.py, and the
 * models that write them (docs/formats.md). In: the found format. Out: the reader's choice.
 */

import { element } from "./dom.js";

const field = element("format-field", HTMLElement);
const list = element("format", HTMLSelectElement);
const markupSign = element("markup-sign", HTMLElement);

/** The models that write each format. @type {Record<string, string>} */
const FORMATS = {
  apertus: "Apertus",
  command_a: "Command A, R7B",
  "deepseek_v3.1": "DeepSeek V3.1",
  "deepseek_v3.2": "DeepSeek V3.2",
  deepseek_v3_r1: "DeepSeek V3, R1",
  deepseek_v4: "DeepSeek V4",
  "ernie4.5": "ERNIE 4.5 Thinking",
  functiongemma: "FunctionGemma",
  gemma4: "Gemma 4",
  "glm4.5": "GLM-4.5, 4.6, Ling 3, Laguna",
  "glm4.7": "GLM-4.7, 5",
  granite3: "Granite 3",
  granite4: "Granite 4",
  harmony: "gpt-oss",
  hermes2_text: "Hermes 2, 3",
  hunyuan_a13b: "Hunyuan A13B, Apriel",
  internlm2: "InternLM 2, 3",
  kimi_k2: "Kimi K2",
  kimi_k3: "Kimi K3",
  lfm2: "LFM2, LFM2.5",
  "llama3.1_json": "Llama 3.1 to 3.3",
  llama4_pythonic: "Llama 4, ToolACE",
  minimax_m2: "MiniMax M2",
  "mistral_small3.2_callid": "Mistral Small 3.2",
  mistral_v11_args: "Devstral, Magistral, Ministral 3",
  mistral_v3_array: "Mistral 7B v0.3, Nemo, Small 3",
  nemotron3: "Nemotron 3",
  nemotron_nano_v2: "Nemotron Nano 2",
  olmo3: "Olmo 3",
  phi4_mini: "Phi-4-mini",
  "qwen3.5": "Qwen3.5",
  qwen3_coder: "Qwen3-Coder",
  qwen3_hermes: "Qwen 2.5, Qwen3, QwQ, SmolLM3",
  seed_oss: "Seed-OSS",
  step3: "Step-3",
  "step3.5": "Step-3.5",
};

const found = new Option("", "");
list.append(found, new Option("none: show its markup", "none"));
for (const [name, models] of Object.entries(FORMATS))
  list.append(new Option(`${name} (${models})`, name));

/**
 * Show in which format a stream is read.
 * @param {string | null | undefined} format
 * @param {{choice?: string, shown: boolean}} options  The reader's choice, "" for the format that
 *   was found; and whether there is a stream.
 */
export function showFormat(format, { choice = "", shown }) {
  if (!choice) found.text = `${format ?? "none"} (found)`;
  list.value = choice;
  field.hidden = !shown;
  markupSign.hidden = !format;
}

/** @param {boolean} held */
export function holdFormat(held) {
  list.disabled = held;
}

/** @param {(name: string) => void} change  Called with "", "none" or a name. */
export function onFormatChange(change) {
  list.addEventListener("change", () => change(list.value));
}
