/** Finds the memory of the WebAssembly that is started after this, to measure it, or to ruin it. */

let memory;
for (const how of ["instantiate", "instantiateStreaming"]) {
  const own = WebAssembly[how];
  WebAssembly[how] = async (...given) => {
    const made = await own(...given);
    memory = (made.instance ?? made).exports.memory ?? memory;
    return made;
  };
}
const { Instance } = WebAssembly;
WebAssembly.Instance = function (...given) {
  const made = new Instance(...given);
  memory = made.exports.memory ?? memory;
  return made;
};
addEventListener("message", ({ data }) => {
  if (data?.measure) postMessage({ measured: memory.buffer.byteLength });
  if (data?.ruin) new Uint8Array(memory.buffer).fill(255);
});
