// The page's script: what can be read without it is on the page already.

import { beginTables } from "./big_table";
import { beginCharts } from "./chart";
import { beginDrawer } from "./drawer";
import { watch } from "./figures";
import { beginFlows } from "./flows";
import { beginIcicles } from "./icicle";
import { listen } from "./keys";
import { beginNotes } from "./notes";
import { beginShell } from "./shell";
import { state } from "./state";
import { beginTabs } from "./tabs";
import { beginTimeline } from "./timeline";

const parts = [
  beginShell, beginNotes, beginTables, beginTimeline, beginFlows, beginIcicles, beginCharts, beginTabs,
  beginDrawer, listen, () => watch(document), () => state.begin(),
];
state.read();
// A part that fails must not affect the others.
for (const part of parts) {
  try {
    part();
  } catch (error) {
    console.error(error);
  }
}
