// What the library needs of Node; Deno and Bun have it as well.
declare module "node:fs/promises" {
  export function readFile(path: URL): Promise<Uint8Array<ArrayBuffer>>;
}
declare module "node:process" {
  const process: { cwd(): string };
  export default process;
}
declare module "node:url" {
  export function fileURLToPath(url: URL): string;
  export function pathToFileURL(path: string): URL;
}
