import CauseWork
import Foundation

extension Scenario {
  static let memory: [Scenario] = [
    Scenario("memory-c-fault", .memory, "look_up_record") { stage in
      let page = try latePages(1, each: 1800)
      try stage.turn { look_up_record(page) }
    },
    Scenario("memory-cpp-faults", .memory, "shop::searchIndex") { stage in
      let pages = try latePages(18, each: 100)
      try stage.turn { enter_search_index(pages, 18) }
    },
    // A file several times as large as the memory limit: the kernel computes for as long as it waits.
    Scenario("memory-c-thrashing", .memory, also: [.file, .computing], "scan_mapped_file") { stage in
      try withLittleMemory(stage, 512 << 20) { path in try stage.turn { scan_mapped_file(path, until(2)) } }
    },
    // The limit of the control group drops pages that are read again.
    Scenario(
      "memory-c-reading",
      .memory,
      also: [.file, .computing],
      "read_catalogue_pages",
      texts: [" of files read again", "memory limit of the control group met "]
    ) { stage in
      try withLittleMemory(stage, 128 << 20) { path in
        cause_read_file(path)
        try stage.turn { read_catalogue_pages(path, until(2)) }
      }
    },
    // A mapped file on a slow disk.
    Scenario("memory-c-slow-disk", .memory, also: [.file], "scan_mapped_file") { stage in
      try withSlowDisk(stage) { path in try stage.turn { scan_mapped_file(path, until(1.8)) } }
    },
  ]
}

/// Runs `body` with a file of `bytes` that does not fit into the memory that the process may have.
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
  guard cause_fill_file(path, bytes) == 0 else { throw Unavailable("there is no room in \(stage.directory)") }
  try body(path)
}

private func latePages(_ count: UInt32, each milliseconds: UInt32) throws -> UnsafeMutablePointer<CChar> {
  guard let pages = cause_late_pages(count, milliseconds) else {
    throw Unavailable("userfaultfd(2) is refused: \(String(cString: strerror(errno)))")
  }
  return pages
}
