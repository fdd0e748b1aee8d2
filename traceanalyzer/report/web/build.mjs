// Bundles scripts and styles into ../static/, with the licences of what is bundled and the hash of
// the sources, by which a test without node notices a stale bundle.

import { build } from "esbuild";
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const STATIC = process.argv[2] ?? "../static";
const LIBRARIES = ["@tanstack/virtual-core", "d3-array", "d3-hierarchy", "d3-path", "d3-sankey", "d3-shape", "internmap", "uplot"];
const SOURCES = ["package.json", "build.mjs"];

const sources = [...SOURCES, ...readdirSync("src").map((name) => join("src", name))].sort();
const hash = createHash("sha256");
for (const name of sources) hash.update(`${name}\0`).update(readFileSync(name)).update("\0");

const options = {
  bundle: true, minify: true, write: true, target: "es2022", charset: "utf8", legalComments: "none",
  logLevel: "warning", metafile: true,
};
const made = await build({ ...options, entryPoints: ["src/main.ts"], format: "iife", outfile: join(STATIC, "page.js") });
await build({ ...options, entryPoints: ["src/early.js"], format: "iife", outfile: join(STATIC, "early.js") });
await build({ ...options, entryPoints: ["src/page.css"], outfile: join(STATIC, "page.css") });

// Where a library sits: d3-sankey brings older versions of its own.
const bundled = new Set(Object.keys(made.metafile.inputs)
  .map((path) => /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1]).filter(Boolean));
const licences = [...bundled].sort().map((folder) => {
  const { name, version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  if (!LIBRARIES.includes(name)) throw new Error(`${name} is bundled, but not among the libraries`);
  const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry));
  return { name, version, licence: license, text: readFileSync(join(folder, file), "utf8").trim().split(/\r?\n/) };
});
writeFileSync(join(STATIC, "licences.json"), `${JSON.stringify(licences, null, 1)}\n`);
writeFileSync(join(STATIC, "sources.sha256"), `${hash.digest("hex")}\n`);
