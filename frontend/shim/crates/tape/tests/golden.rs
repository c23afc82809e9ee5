//! The golden byte vectors of `protos/golden`, against the generated encoders and the reader of results.

use serde_json::Value;
use std::collections::BTreeSet;
use tape::operations as o;
use tape::{ResultRecord, Results, Writer};

/// Operations that only earlier guests write.
const RETIRED: [&str; 2] = ["RUN_AHEAD", "KEEP_AHEAD"];

fn load(name: &str, list: &str) -> Vec<Value> {
    let path = format!("{}/../../../../protos/golden/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut document: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(document["tape_version"], o::VERSION, "{path}");
    let Value::Array(entries) = document[list].take() else { panic!("{path}: no {list}") };
    assert!(!entries.is_empty());
    entries
}

fn hex(value: &Value) -> Vec<u8> {
    let text = value.as_str().expect("hexadecimal");
    assert!(text.len().is_multiple_of(2));
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal")).collect()
}

/// The fields of one vector; each must be asked for, so that none is left untested.
struct Fields<'a> {
    fields: &'a serde_json::Map<String, Value>,
    used: BTreeSet<&'a str>,
}

impl<'a> Fields<'a> {
    fn new(vector: &'a Value) -> Self {
        Self { fields: vector["fields"].as_object().expect("fields"), used: BTreeSet::new() }
    }

    fn get(&mut self, name: &str) -> &'a Value {
        let (name, value) = self.fields.get_key_value(name).unwrap_or_else(|| panic!("no field {name}"));
        self.used.insert(name);
        value
    }

    fn u64(&mut self, name: &str) -> u64 {
        self.get(name).as_u64().expect("u64")
    }

    fn u32(&mut self, name: &str) -> u32 {
        self.u64(name).try_into().expect("u32")
    }

    fn i32(&mut self, name: &str) -> i32 {
        self.get(name).as_i64().expect("integer").try_into().expect("i32")
    }

    fn u32s(&mut self, name: &str) -> [u32; 3] {
        let values = self.get(name).as_array().expect("array");
        let values: Vec<u32> = values.iter().map(|v| v.as_u64().expect("u64").try_into().expect("u32")).collect();
        values.try_into().expect("three")
    }

    fn bytes(&mut self, name: &str) -> Vec<u8> {
        hex(self.get(name))
    }

    fn digest(&mut self) -> [u8; 32] {
        self.bytes("digest").try_into().expect("32 bytes")
    }

    fn assert_all_used(&self) {
        assert_eq!(self.fields.len(), self.used.len(), "{:?}", self.fields);
    }
}

/// Whether the vector sets a record flag.
fn flag(vector: &Value, name: &str) -> bool {
    vector["flags"][name].as_bool().expect("flag")
}

/// Writes the vector's operation.
#[allow(clippy::too_many_lines)] // one line for each operation
fn encode(w: &mut Writer, operation: &str, vector: &Value) {
    let f = &mut Fields::new(vector);
    match operation {
        "FENCE" => o::fence(w, f.u32("slot")),
        "ALLOCATE" => o::allocate(w, f.u64("address"), f.u64("size")),
        "HOST_MAP" => o::host_map(w, f.u64("address"), f.u64("device"), f.u64("size")),
        "CONTEXT" => o::context(w, f.u32("context"), flag(vector, "anew")),
        "PHYSICAL_CREATE" => o::physical_create(w, f.u32("memory"), f.u64("size")),
        "PHYSICAL_RELEASE" => o::physical_release(w, f.u32("memory")),
        "PHYSICAL_MAP" => {
            o::physical_map(w, f.u64("address"), f.u64("offset"), f.u64("size"), f.u32("memory"));
        }
        "PHYSICAL_UNMAP" => o::physical_unmap(w, f.u64("address")),
        "PHYSICAL_ACCESS" => o::physical_access(w, f.u64("address"), f.u32("access")),
        "FREE" => o::free(w, f.u64("address")),
        "MEMSET" => {
            let rows = (f.u64("address"), f.u64("pitch"), f.u64("width"), f.u64("height"));
            o::memset(w, rows.0, rows.1, rows.2, rows.3, f.u32("value"), f.u32("element"), f.u32("stream"));
        }
        "WRITE" => {
            let rows = (f.u64("address"), f.u64("pitch"), f.u64("width"), f.u64("height"));
            let (lz4, zstd) = (flag(vector, "lz4"), flag(vector, "zstd"));
            o::write(w, rows.0, rows.1, rows.2, rows.3, f.u32("stream"), lz4, zstd, &f.bytes("data"));
        }
        "READ" => {
            let rows = (f.u64("address"), f.u64("pitch"), f.u64("width"), f.u64("height"));
            o::read(w, rows.0, rows.1, rows.2, rows.3, f.u32("stream"), f.u32("slot"));
        }
        "COPY" => {
            let ends = (f.u64("destination"), f.u64("destination_pitch"), f.u64("source"), f.u64("source_pitch"));
            o::copy(w, ends.0, ends.1, ends.2, ends.3, f.u64("width"), f.u64("height"), f.u32("stream"));
        }
        "STREAM_CREATE" => o::stream_create(w, f.u32("stream"), f.u32("flags"), f.i32("priority")),
        "STREAM_DESTROY" => o::stream_destroy(w, f.u32("stream")),
        "STREAM_WAIT_EVENT" => o::stream_wait_event(w, f.u32("stream"), f.u32("event")),
        "STREAM_SYNCHRONIZE" => o::stream_synchronize(w, f.u32("stream"), f.u32("slot")),
        "STREAM_QUERY" => o::stream_query(w, f.u32("stream"), f.u32("slot")),
        "EVENT_CREATE" => o::event_create(w, f.u32("event"), f.u32("flags")),
        "EVENT_DESTROY" => o::event_destroy(w, f.u32("event")),
        "EVENT_RECORD" => o::event_record(w, f.u32("event"), f.u32("stream"), f.u32("flags")),
        "EVENT_SYNCHRONIZE" => o::event_synchronize(w, f.u32("event"), f.u32("slot")),
        "EVENT_QUERY" => o::event_query(w, f.u32("event"), f.u32("slot")),
        "EVENT_ELAPSED" => o::event_elapsed(w, f.u32("start"), f.u32("end"), f.u32("slot")),
        "DEVICE_SYNCHRONIZE" => o::device_synchronize(w, f.u32("slot")),
        "DEVICE_RESET" => o::device_reset(w, f.u32("slot")),
        "CHECK_END" => o::check_end(w, f.u32("slot")),
        "TIMELINE" => o::timeline(w, f.u64("first"), f.u32("slot"), f.u32("size")),
        "DEVICE_LIMIT" => o::device_limit(w, f.u32("limit"), f.u64("value")),
        "MODULE_OPEN" => o::module_open(w, f.u32("module"), &f.digest()),
        "MODULE_BEGIN" => o::module_begin(w, f.u64("size"), &f.digest()),
        "MODULE_CHUNK" => o::module_chunk(w, &f.bytes("data")),
        "MODULE_END" => o::module_end(w, &f.digest()),
        "MODULE_CLOSE" => o::module_close(w, f.u32("module")),
        "MODULE_CHECK" => o::module_check(w, f.u32("slot"), f.u32("size"), f.u32("unit"), &f.digest()),
        "MODULE_QUERY" => o::module_query(w, f.u32("slot"), &f.digest()),
        "FUNCTION_OPEN" => o::function_open(w, f.u32("function"), f.u32("module"), &f.bytes("name")),
        "FUNCTION_ATTRIBUTE" => o::function_attribute(w, f.u32("function"), f.u32("attribute"), f.i32("value")),
        "VARIABLE_OPEN" => o::variable_open(w, f.u32("variable"), f.u32("module"), f.u64("size"), &f.bytes("name")),
        "VARIABLE_ADDRESS" => o::variable_address(w, f.u32("variable"), f.u32("slot")),
        "CONDITIONAL" => {
            o::conditional(w, f.u64("condition"), f.u32("stream"), f.u32("kind"), &f.bytes("templates"));
        }
        "OBJECT_CREATE" => o::object_create(w, f.u32("slot"), &f.bytes("description").try_into().expect("128 bytes")),
        "TENSOR_MAP" => {
            let map = f.bytes("map").try_into().expect("128 bytes");
            o::tensor_map(w, f.u64("address"), f.u32("slot"), f.u32("replaces"), &map);
        }
        "OBJECT_DESTROY" => o::object_destroy(w, f.u64("object"), f.u32("surface")),
        "LAUNCH" => {
            let shape = (f.u32s("grid"), f.u32s("block"), f.u32("shared_bytes"));
            let cooperative = flag(vector, "cooperative");
            let cluster = vector["flags"]["cluster"].as_u64().expect("a number") as u16;
            let (function, stream, parameters) = (f.u32("function"), f.u32("stream"), f.bytes("parameters"));
            o::launch(w, function, stream, shape.0, shape.1, shape.2, cooperative, cluster, &parameters);
        }
        "TEMPLATE" => o::template(w, f.u32("template"), f.u32("holes"), &f.bytes("content")),
        "REPEAT" => {
            let continued = flag(vector, "continued");
            o::repeat(w, f.u32("template"), f.u64("count"), continued, &f.bytes("columns"));
        }
        "SLICE" => o::slice(w, f.u32("slice"), f.u32("template"), f.u32("slice_bytes"), &f.bytes("content")),
        "WHILE" => {
            let (slice, slot, inputs) = (f.u32("slice"), f.u32("slot"), f.bytes("inputs"));
            let bounds = (f.u64("iterations"), f.u32("microseconds"));
            o::while_(w, slice, slot, bounds.0, bounds.1, flag(vector, "continued"), &inputs);
        }
        "PAYLOAD_KEEP" => {
            let (lz4, zstd) = (flag(vector, "lz4"), flag(vector, "zstd"));
            o::payload_keep(w, f.u32("payload"), f.u32("raw_bytes"), lz4, zstd, &f.bytes("data"));
        }
        "PAYLOAD_DROP" => o::payload_drop(w, f.u32("payload")),
        "WRITE_KEPT" => {
            let rows = (f.u64("address"), f.u64("pitch"), f.u64("width"), f.u64("height"));
            o::write_kept(w, rows.0, rows.1, rows.2, rows.3, f.u32("stream"), f.u32("payload"));
        }
        unknown => panic!("no encoder for {unknown}: add it here"),
    }
    f.assert_all_used();
}

#[test]
fn encoders_write_exactly_the_golden_records() {
    let mut writer = Writer::new();
    let mut expected = Vec::new();
    let mut covered = BTreeSet::new();
    for vector in load("operations.json", "records") {
        let operation = vector["operation"].as_str().expect("operation").to_owned();
        if RETIRED.contains(&operation.as_str()) {
            continue;
        }
        let start = writer.len();
        encode(&mut writer, &operation, &vector);
        let record = hex(&vector["record"]);
        assert_eq!(writer.as_slice()[start..], record, "{operation} {}", vector["fields"]);
        expected.extend(record);
        covered.insert(operation);
    }
    assert_eq!(writer.as_slice(), expected);
    let named: BTreeSet<String> = (0..=u16::MAX).filter_map(|code| o::name(code).map(str::to_owned)).collect();
    assert_eq!(covered, named, "every operation has a vector");
}

#[test]
fn the_reader_reads_exactly_the_golden_results() {
    let mut all = Vec::new();
    let mut covered = BTreeSet::new();
    let vectors = load("results.json", "records");
    for vector in &vectors {
        let f = &mut Fields::new(vector);
        let (slot, error) = (f.u32("slot"), f.i32("error"));
        let kind = vector["result"].as_str().expect("kind");
        let data = if kind == "DATA" { f.bytes("data") } else { Vec::new() };
        let expected = match kind {
            "STATUS" => ResultRecord::Status { slot, error },
            "VALUE" => ResultRecord::Value { slot, error, value: f.u64("value") },
            "DATA" => ResultRecord::Data { slot, error, offset: f.u64("offset"), data: &data },
            unknown => panic!("unknown kind {unknown}"),
        };
        f.assert_all_used();
        let record = hex(&vector["record"]);
        let read: Vec<_> = Results::new(&record).collect();
        assert_eq!(read, [Ok(expected)]);
        assert_eq!((expected.slot(), expected.error()), (slot, error));
        all.extend(record);
        covered.insert(kind.to_owned());
    }
    assert_eq!(covered.len(), 3);
    assert_eq!(Results::new(&all).filter(Result::is_ok).count(), vectors.len());
    assert_eq!(Results::new(&all).filter(Result::is_err).count(), 0);
}

#[test]
fn the_reader_refuses_malformed_results() {
    for vector in load("malformed_results.json", "replies") {
        let results = hex(&vector["results"]);
        let last = Results::new(&results).last();
        assert!(matches!(last, Some(Err(_))), "{}: {last:?}", vector["why"]);
    }
}
