declare module "node:fs" {
  export function readFileSync(file: URL, encoding: "utf8"): string;
}
