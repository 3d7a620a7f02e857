// Packed files, as people attach them.

import assert from "node:assert/strict";
import test from "node:test";
import { deflateSync, gzipSync } from "node:zlib";

import { unpack } from "../../web/src/unpack.js";

const TEXT = "data: {}\n".repeat(4);
// Made by Python's zipfile: one deflated file, also with its time in an extra field; a folder with
// a stored one; two files.
const ONE =
  "UEsDBBQAAAAIAJqYd10cwNBZDgAAACQAAAAFAAAAYS5zc2VLSSxJtFKoruVKwc0AAFBLAQIUAxQAAAAIAJqYd10cwNBZDgAAACQAAAAFAAAAAAAAAAAAAACAAQAAAABhLnNzZVBLBQYAAAAAAQABADMAAAAxAAAAAAA=";
const TIMED =
  "UEsDBBQAAAAIAAAAIQAcwNBZDgAAACQAAAAFAAkAYS5zc2VVVAUAAQAAAABLSSxJtFKoruVKwc0AAFBLAQIUAxQAAAAIAAAAIQAcwNBZDgAAACQAAAAFAAkAAAAAAAAAAACAAQAAAABhLnNzZVVUBQABAAAAAFBLBQYAAAAAAQABADwAAAA6AAAAAAA=";
const FOLDER =
  "UEsDBBQAAAAAAAAAIQAAAAAAAAAAAAAAAAACAAAAZC9QSwMEFAAAAAAAAAAhAOkqC0kJAAAACQAAAAcAAABkL2Euc3NlZGF0YToge30KUEsBAhQDFAAAAAAAAAAhAAAAAAAAAAAAAAAAAAIAAAAAAAAAAAAAAIABAAAAAGQvUEsBAhQDFAAAAAAAAAAhAOkqC0kJAAAACQAAAAcAAAAAAAAAAAAAAIABIAAAAGQvYS5zc2VQSwUGAAAAAAIAAgBlAAAATgAAAAAA";
const TWO =
  "UEsDBBQAAAAAAAAAIQC379yDAQAAAAEAAAABAAAAYTFQSwMEFAAAAAAAAAAhAA2+1RoBAAAAAQAAAAEAAABiMlBLAQIUAxQAAAAAAAAAIQC379yDAQAAAAEAAAABAAAAAAAAAAAAAACAAQAAAABhUEsBAhQDFAAAAAAAAAAhAA2+1RoBAAAAAQAAAAEAAAAAAAAAAAAAAIABIAAAAGJQSwUGAAAAAAIAAgBeAAAAQAAAAAAA";

/** @param {Uint8Array | string} data @param {string} [name] */
const opened = async (data, name) =>
  Buffer.from(
    await unpack(
      new Uint8Array(typeof data === "string" ? Buffer.from(data, "base64") : data),
      name,
    ),
  ).toString();

test("gzip, zlib and a zip archive with one file are unpacked, also in one another", async () => {
  assert.equal(await opened(gzipSync(TEXT)), TEXT);
  assert.equal(await opened(deflateSync(TEXT)), TEXT);
  assert.equal(await opened(ONE), TEXT);
  assert.equal(await opened(TIMED), TEXT);
  assert.equal(await opened(FOLDER), "data: {}\n");
  assert.equal(await opened(gzipSync(Buffer.from(ONE, "base64"))), TEXT);
});

test("a folder with an extra field and a comment may stand before the file of a zip archive", async () => {
  const archive = Buffer.from(FOLDER, "base64");
  // The directory begins at 78 with the folder's entry: 46 bytes and its name of two.
  const entry = Buffer.concat([
    archive.subarray(78, 78 + 48),
    Buffer.from("extra"),
    Buffer.from("note"),
  ]);
  entry.writeUInt16LE(5, 30);
  entry.writeUInt16LE(4, 32);
  const longer = Buffer.concat([archive.subarray(0, 78), entry, archive.subarray(78 + 48)]);
  assert.equal(await opened(longer), "data: {}\n");
});

test("a zip archive with a comment at its end is unpacked", async () => {
  const commented = Buffer.concat([Buffer.from(ONE, "base64"), Buffer.from("by hand")]);
  commented.writeUInt16LE(7, commented.length - 9);
  assert.equal(await opened(commented), TEXT);
});

test("other files, damaged ones and archives of several files stay as they are", async () => {
  for (const text of ["", "data: {}", "x\u0001", "PK"])
    assert.equal(await opened(Buffer.from(text)), text);
  const torn = gzipSync(TEXT).subarray(0, 20);
  assert.deepEqual(await unpack(new Uint8Array(torn)), new Uint8Array(torn));
  const two = new Uint8Array(Buffer.from(TWO, "base64"));
  assert.deepEqual(await unpack(two), two);
  assert.equal(await opened(Buffer.from("no brotli"), "a.br"), "no brotli");
});

test("what is small and becomes huge is not unpacked", async () => {
  const bomb = new Uint8Array(gzipSync(Buffer.alloc((64 << 20) + 1)));
  assert.deepEqual(await unpack(bomb), bomb);
});
