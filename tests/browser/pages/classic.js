/* eslint no-var: "off" */
// A script of the old kind: no import statement, but import() is there.
(function () {
  var modules = ["/pages/kit.js", "/src/index.js", "/src/decoder.js"];
  import(modules[0])
    .then(function () {
      return Promise.all([import(modules[1]), import(modules[2])]);
    })
    .then(function (loaded) {
      window.ready(loaded[0], loaded[1]);
    });
})();
