// The modules of Node that the library uses; Deno and Bun have them too.
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
