import CauseWork
import Foundation

extension Scenario {
  static let memory = [
    Scenario("memory-c-fault", .c, .memory, "look_up_record", [.root]) { stage in
      let page = try latePages(1, each: 1800)
      try stage.turn { look_up_record(page) }
    },
    Scenario("memory-cpp-faults", .cpp, .memory, "shop::searchIndex", [.root]) { stage in
      let pages = try latePages(18, each: 100)
      try stage.turn { enter_search_index(pages, 18) }
    },
    Scenario("memory-swift-fault", .swift, .memory, "sumLedger(_:)", [.root]) { stage in
      let pages = try latePages(6, each: 300)
      // SAFETY: `latePages` has mapped this number of bytes.
      try stage.turn { sumLedger(UnsafeBufferPointer(start: pages, count: 6 * 4096)) }
    },
    // A file several times as large as the memory limit. The kernel computes and waits equally long.
    Scenario("memory-c-thrashing", .c, .memory, also: [.file, .computing], "scan_mapped_file", [.root]) { stage in
      try withLittleMemory(stage, 512 << 20) { path in try stage.turn { scan_mapped_file(path, until(2)) } }
    },
    // The limit of the control group evicts pages that are read again.
    Scenario(
      "memory-c-reading",
      .c,
      .memory,
      also: [.file, .computing],
      "read_catalogue_pages",
      texts: [" of files read again", "memory limit of the control group met "],
      [.root]
    ) { stage in
      try withLittleMemory(stage, 128 << 20) { path in
        cause_read_file(path)
        try stage.turn { read_catalogue_pages(path, until(2)) }
      }
    },
    // A mapped file on a slow disk.
    Scenario("memory-c-slow-disk", .c, .memory, also: [.file], "scan_mapped_file", [.root]) { stage in
      try withSlowDisk(stage) { path in try stage.turn { scan_mapped_file(path, until(1.8)) } }
    },
  ]
}

/// Runs `body` with a file of `bytes`, which exceeds a memory limit of the process.
private func withLittleMemory(_ stage: Stage, _ bytes: UInt64, _ body: (String) throws -> Void) throws {
  let path = "\(stage.directory)/index"
  let limit = 48 << 20
  let group = try ControlGroup(
    "memory",
    settings: [("memory.limit_in_bytes", "\(limit)")],
    orUnified: [("memory.max", "\(limit)")]
  )
  defer { group.leave() }
  try group.enter()
  guard cause_fill_file(path, bytes) == 0 else { throw Unavailable("no space left in \(stage.directory)") }
  try body(path)
}

private func latePages(_ count: UInt32, each milliseconds: UInt32) throws -> UnsafeMutablePointer<CChar> {
  guard let pages = cause_late_pages(count, milliseconds) else {
    throw Unavailable("userfaultfd(2) is refused: \(String(cString: strerror(errno)))")
  }
  return pages
}

@inline(never) private func sumLedger(_ ledger: UnsafeBufferPointer<CChar>) {
  var sum = 0
  for place in stride(from: 0, to: ledger.count, by: 4096) { sum += Int(ledger[place]) }
  keep(sum)
}
