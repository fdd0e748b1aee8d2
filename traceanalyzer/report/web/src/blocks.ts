// Generated from traceanalyzer/model/blocks.py: python -m tests.report.page.block_types

export interface BigTable {
  block: "big_table";
  id: string;
  columns: Column[];
  packed: PackedTable;
  key?: string;
}

export interface Chart {
  block: "chart";
  style: "bars" | "lines" | "steps";
  x_label: string;
  x_unit: "bytes" | "bytes_per_s" | "count" | "share" | "us";
  x: number[];
  y_unit: "bytes" | "bytes_per_s" | "count" | "share" | "us";
  series: Series[];
  limit?: [string, number] | null;
  to?: string[];
}

export interface Column {
  name: string;
  title: string;
  kind?: "bytes" | "bytes_per_s" | "code" | "count" | "share" | "text" | "us";
  term?: string;
  opens?: "" | "op" | "source";
}

export interface EventLane {
  host: string;
  name: string;
  kind: "copies" | "steps" | "stream" | "thread";
  rows: number;
  events_total: number;
  device?: string | null;
  is_program?: boolean;
}

export interface EventTimeline {
  unit_ns: number;
  lanes: EventLane[];
  lanes_total: number;
  names: PackedTable;
  events: PackedTable;
  events_total: number;
  merged_total: number;
  merged_below_us: number | null;
}

export interface Flow {
  source: number;
  target: number;
  bytes: number | null;
  count: number;
  us?: number | null;
  gpu_wait_us?: number | null;
}

export interface FlowNode {
  label: string;
  memory: string;
  ops?: number;
  op_id?: string | null;
}

export interface Flows {
  block: "flows";
  nodes: FlowNode[];
  flows: Flow[];
}

export interface Icicle {
  block: "icicle";
  measures: ([string, "bytes" | "bytes_per_s" | "count" | "share" | "us"])[];
  nodes: IcicleNode[];
}

export interface IcicleNode {
  parent: number;
  label: string;
  kind: string;
  values: number[];
  op_id?: string | null;
}

export interface PackedTable {
  columns: string[];
  rows: number;
  total_rows: number;
  data: string;
}

export interface Series {
  label: string;
  values: (number | null)[];
  kind?: "compute" | "cpu_op" | "input" | "launch" | "other_device" | "preparation" | "program" | "runtime" | "transfer" | "unknown" | "unplaced" | "on_cpu" | "on_cpu_once" | "on_gpu" | "other";
}

export interface Timeline {
  block: "timeline";
  events: EventTimeline;
  arrows?: PackedTable | null;
}
