// The data of the page: a JSON document and the columns of histories, as crates/page/src/columns.rs writes
// them. Operations are decoded when they are first asked for.

async function loadData() {
  const text = document.getElementById("data").textContent;
  const packed = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const length = new DataView(bytes.buffer).getUint32(0, true);
  const page = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
  for (const run of page.runs) {
    if (run.history) {
      run.history = new History(run.history, bytes.subarray(4 + length + run.history.offset));
      run.history.unit = run.unit;
      run.history.faults = new Map(run.faults.map(([t, name, detail]) => [t, { name, detail }]));
    }
  }
  return page;
}

/** Numbers of a column, one after another. */
class Reader {
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }

  number() {
    let result = 0;
    let scale = 1;
    for (;;) {
      const byte = this.bytes[this.at++];
      result += (byte & 0x7f) * scale;
      if (byte < 0x80) return result;
      scale *= 128;
    }
  }

  signed() {
    return unzigzag(this.number());
  }

  text(length) {
    this.at += length;
    return DECODER.decode(this.bytes.subarray(this.at - length, this.at));
  }
}

const DECODER = new TextDecoder();

function unzigzag(n) {
  return n % 2 === 0 ? n / 2 : -(n + 1) / 2;
}

const KINDS = ["r", "w", "a"];

class History {
  constructor(about, bytes) {
    Object.assign(this, about);
    this.count = about.transactions;
    this.column = (name) => {
      const [start, length] = about.columns[name];
      return new Reader(bytes.subarray(start, start + length));
    };
    this.lane = new Uint32Array(this.count);
    this.begin = new Float64Array(this.count);
    this.end = new Float64Array(this.count);
    this.outcome = new Uint8Array(this.count);
    this.size = new Uint32Array(this.count);
    this.line = new Uint32Array(this.count);
    this.readTransactions();
    this.arrangeLanes();
  }

  readTransactions() {
    const [lane, span, outcome, size, line] = ["lane", "span", "outcome", "size", "line"].map(this.column);
    let [begin, at, last] = [0, 0, 0];
    for (let i = 0; i < this.count; i++) {
      this.lane[i] = lane.number();
      begin += span.signed();
      const took = span.number();
      this.begin[i] = begin;
      this.end[i] = took === 0 ? NaN : begin + took - 1;
      this.outcome[i] = outcome.number();
      this.size[i] = size.number();
      at += line.signed();
      this.line[i] = at;
      last = Math.max(last, begin, took === 0 ? 0 : begin + took - 1);
    }
    this.last = Math.max(last, 1);
    // One that never ended, as far as its client knew, is drawn to the end of the run.
    for (let i = 0; i < this.count; i++) if (Number.isNaN(this.end[i])) this.end[i] = this.last;
  }

  /** Per lane: its transactions by begin, how late one of them has ended so far, and sums of aborted ones. */
  arrangeLanes() {
    const members = this.sessions.map(() => []);
    for (let i = 0; i < this.count; i++) members[this.lane[i]].push(i);
    this.lanes = members.map((list) => {
      if (list.some((t, i) => i > 0 && this.begin[list[i - 1]] > this.begin[t])) {
        list.sort((a, b) => this.begin[a] - this.begin[b] || a - b);
      }
      const lane = { txns: Uint32Array.from(list), reach: new Float64Array(list.length) };
      lane.aborted = new Uint32Array(list.length + 1);
      let reach = -Infinity;
      list.forEach((t, i) => {
        reach = Math.max(reach, this.end[t]);
        lane.reach[i] = reach;
        lane.aborted[i + 1] = lane.aborted[i] + (this.outcome[t] === 1 ? 1 : 0);
      });
      return lane;
    });
  }

  /** The name of a session; that of the faults of `anomalist test` says what it is. */
  laneName(lane) {
    return this.faults.has(this.lanes[lane].txns[0]) ? "faults" : this.sessions[lane];
  }

  name(t) {
    if (!this.names) this.readNames();
    const name = this.names[t];
    return this.naming === "places" ? `${this.sessions[this.lane[t]]}:${name}` : String(name);
  }

  readNames() {
    const reader = this.column("name");
    this.names = new Array(this.count);
    let last = 0;
    for (let i = 0; i < this.count; i++) {
      this.names[i] = this.naming === "texts" ? reader.text(reader.number()) : (last += reader.signed());
    }
  }

  /** The operations of a transaction; null if the page does not carry them. */
  operations(t) {
    this.readOperations();
    const start = this.starts[t];
    if (start < 0) return null;
    const list = [];
    for (let i = start; i < start + this.size[t]; i++) list.push(this.operation(i));
    return list;
  }

  operation(i) {
    return { type: KINDS[this.opKind[i]], key: this.opKey[i], value: this.opValue[i] };
  }

  readOperations() {
    if (this.starts) return;
    this.starts = new Int32Array(this.count).fill(-1);
    const carried = this.column("carried").bytes;
    let total = 0;
    for (let i = 0; i < this.count; i++) {
      if (carried[i >> 3] & (1 << (i & 7))) {
        this.starts[i] = total;
        total += this.size[i];
      }
    }
    const keys = this.column("keys");
    const orders = this.column("orders");
    this.keyNames = [];
    this.orders = [];
    for (let i = 0; i < this.keys; i++) {
      this.keyNames.push(keys.text(keys.number()));
      const order = new Array(orders.number());
      for (let j = 0; j < order.length; j++) order[j] = readValue(orders, []);
      this.orders.push(order);
    }
    const reader = this.column("operations");
    this.opKind = new Uint8Array(total);
    this.opKey = new Uint32Array(total);
    this.opValue = new Array(total);
    for (let i = 0; i < total; i++) {
      const head = reader.number();
      this.opKind[i] = head % 4;
      this.opKey[i] = Math.floor(head / 4);
      this.opValue[i] = readValue(reader, this.orders[this.opKey[i]]);
    }
  }

  /** Per key: who wrote and who read which value. Built once. */
  byKey() {
    if (this.keyUse) return this.keyUse;
    this.readOperations();
    this.keyUse = this.keyNames.map(() => ({ writes: [], reads: [] }));
    for (let t = 0; t < this.count; t++) {
      const start = this.starts[t];
      for (let i = start; start >= 0 && i < start + this.size[t]; i++) {
        const use = this.keyUse[this.opKey[i]];
        (this.opKind[i] === 0 ? use.reads : use.writes).push({ t, i });
      }
    }
    return this.keyUse;
  }

  keyNumber(name) {
    this.readOperations();
    if (!this.keyIndex) this.keyIndex = new Map(this.keyNames.map((key, i) => [key, i]));
    return this.keyIndex.get(name);
  }
}

/** A value: null, a number, a text, {unknown: true} or {list: […]} (a prefix of the key's order is shared). */
function readValue(reader, order) {
  const head = reader.number();
  const rest = Math.floor(head / 8);
  switch (head % 8) {
    case 0:
      return null;
    case 1:
      return { unknown: true };
    case 2:
      return unzigzag(rest);
    case 3:
      return reader.text(rest);
    case 4:
      return { list: order, length: rest };
    default: {
      const list = new Array(rest);
      for (let i = 0; i < rest; i++) list[i] = readValue(reader, []);
      return { list, length: rest };
    }
  }
}

/** A value as text; long lists without their middle. */
function showValue(value, most = 7) {
  if (value === null) return "nil";
  if (typeof value !== "object") return String(value);
  if (value.unknown) return "?";
  const { list, length } = value;
  const show = (from, to) => list.slice(from, to).map((v) => showValue(v)).join(" ");
  if (length <= most) return `[${show(0, length)}]`;
  return `[${show(0, 2)} … ${show(length - 3, length)}]`;
}
