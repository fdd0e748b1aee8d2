import { expect, it } from "vitest";
import { stacked } from "../src/chart";
import { withoutCircles } from "../src/flows";
import { treeOf } from "../src/icicle";

it("draws a flow back to a node as a node of its own", () => {
  const nodes = ["a", "b"].map((label) => ({ label, memory: "host" }));
  const flow = (source: number, target: number) => ({ source, target, bytes: 8, count: 1 });
  const graph = withoutCircles({ nodes, flows: [flow(0, 1), flow(1, 0), flow(0, 0)] });
  expect(graph.links.map(({ source, target }) => [source, target])).toEqual([[0, 1], [1, 2], [0, 2]]);
  expect(graph.nodes.map(({ label }) => label)).toEqual(["a", "b", "a"]);
});

it("stacks bars upon what is known", () => {
  const series = [[1, 2], [null, 3], [4, 1]].map((values, at) => ({ label: `${at}`, values }));
  expect(stacked(series)).toEqual([[1, 2], [null, 5], [5, 6]]);
});

it("makes a tree of parents", () => {
  const nodes = [-1, 0, 0, -1].map((parent) => ({ parent, label: "x", kind: "scope", values: [1] }));
  const tree = treeOf(nodes);
  expect(tree.children.map(({ place }) => place)).toEqual([0, 3]);
  expect(tree.children[0].children.map(({ place }) => place)).toEqual([1, 2]);
});
