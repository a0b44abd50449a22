import CCulpritLinux
import CCulpritObserver
import Foundation
import Glibc
import Testing

@Suite(.serialized) struct EvidenceTests {
  @Test(arguments: [
    ("read_bytes: 4096\n", "read_bytes:", UInt64(4096)), ("cancelled_read_bytes: 1\nread_bytes: 2\n", "read_bytes:", 2),
    ("read_bytes: 2", "read_bytes:", .max),
    ("a\nvoluntary_ctxt_switches:\t17\n", "voluntary_ctxt_switches:", 17), ("some avg10=0.00 total=55\n", "total=", 55),
    ("", "total=", .max), ("total=", "total=", .max), ("total=x", "total=", .max), ("subtotal=3", "total=", .max),
  ]) func parsesNumberAfterKey(text: String, key: String, number: UInt64) {
    #expect(observer_evidence_number(text, text.utf8.count, key) == number)
  }

  private func read(_ tid: Int32, _ times: inout observer_evidence_times, slot: UInt32 = 0) -> observer_evidence {
    var evidence = observer_evidence()
    var status = observer_thread_status()
    status.activity = OBSERVER_RUNNING
    observer_evidence_read(tid, slot, &status, &times, &evidence)
    return evidence
  }

  @Test func readsThreadCounters() throws {
    let tid = clinux_task_self()
    var times = observer_evidence_times()
    let first = read(tid, &times)
    #expect(first.has_counters && first.has_surroundings && !first.has_arguments)
    #expect(!read(tid, &times).has_counters && !read(tid, &times).has_surroundings)
    // The minimum interval between reads applies to each slot separately.
    #expect(read(tid, &times, slot: 1).has_counters && !read(tid, &times, slot: 1).has_counters)
    #expect(read(tid, &times, slot: 2).has_surroundings)
    let descriptor = open("/dev/null", O_WRONLY)
    defer { close(descriptor) }
    let bytes = [UInt8](repeating: 1, count: 300_000)
    #expect(write(descriptor, bytes, bytes.count) == bytes.count)
    times.next_ns = observer_evidence_times().next_ns
    let second = read(tid, &times)
    #expect(second.has_counters)
    let written = second.counters.written_bytes - first.counters.written_bytes
    #expect(written >= 300_000 && written < 1_000_000)
    #expect(second.counters.minor_faults >= first.counters.minor_faults)
    #expect(second.counters.user_ticks + second.counters.system_ticks >= first.counters.user_ticks)
  }

  @Test func missingThreadHasNoCounters() {
    var times = observer_evidence_times()
    #expect(!read(1 << 29, &times).has_counters)
  }

  /// cpu.stat of cgroup v2, of cgroup v1, and without throttling.
  @Test(arguments: [
    ("nr_throttled 3\nthrottled_usec 2500\n", UInt64(2_500_000)), ("nr_throttled 3\nthrottled_time 2500\n", 2500),
    ("usage_usec 7\n", .max),
  ]) func sumsThrottlingOfControlGroups(text: String, nanoseconds: UInt64) throws {
    let path = NSTemporaryDirectory() + "culprit-cpu-\(getpid())-\(nanoseconds)"
    try text.write(toFile: path, atomically: false, encoding: .utf8)
    defer { unlink(path) }
    // The times of nested groups add up.
    let names = [strdup(path), strdup("/none/cpu.stat"), strdup(path)]
    defer { for name in names { free(name) } }
    observer_evidence_know(names.map { UnsafePointer($0) }, 3, "/none", "/none", nil, nil, 5)
    defer { observer_evidence_know(nil, 0, nil, nil, nil, nil, 0) }
    var times = observer_evidence_times()
    let found = read(clinux_task_self(), &times).surroundings
    #expect(found.throttled_ns == (nanoseconds == .max ? .max : 2 * nanoseconds))
    #expect(found.cpus == 5 && found.memory_stalled_ns == .max && found.runnable > 0)
  }

  /// Files of cgroup v2 and v1, and of a group without a limit.
  @Test(arguments: [
    ("low 0\nhigh 2\nmax 40\noom 0\n", "anon 9\nworkingset_refault_anon 1\nworkingset_refault_file 3\n", UInt64(42)),
    ("40\n", "cache 9\nworkingset_refault_file 3\ntotal_workingset_refault_file 8\n", 40),
    ("", "workingset_refault_file 3\n", .max),
  ]) func readsMemoryOfGroup(limit: String, stat: String, hits: UInt64) throws {
    let paths = ["limit", "stat"].map { NSTemporaryDirectory() + "culprit-memory-\(getpid())-\(hits)-\($0)" }
    defer { for path in paths { unlink(path) } }
    for (path, text) in zip(paths, [limit, stat]) { try text.write(toFile: path, atomically: false, encoding: .utf8) }
    observer_evidence_know(nil, 0, nil, nil, paths[1], paths[0], 5)
    defer { observer_evidence_know(nil, 0, nil, nil, nil, nil, 0) }
    var times = observer_evidence_times()
    let found = read(clinux_task_self(), &times).surroundings
    #expect(found.limit_hits == hits && found.refaulted_bytes == 3 * UInt64(sysconf(Int32(_SC_PAGESIZE))))
  }
}
