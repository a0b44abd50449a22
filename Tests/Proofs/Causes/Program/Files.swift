import CauseWork
import Foundation

extension Scenario {
  static let files = [
    Scenario("file-swift-synchronize", .swift, .file, "storeOrders(in:until:)", [.loadSensitive]) { stage in
      try stage.turn { storeOrders(in: stage.directory, until: until(1.8)) }
    },
    Scenario("file-swift-contents", .swift, .file, also: [.computing], "loadTemplates(from:until:)") { stage in
      try makeFiles(in: stage, 300)
      try stage.turn { loadTemplates(from: stage.directory, until: until(1.8)) }
    },
    Scenario("file-c-fsync", .c, .file, "save_ledger", [.loadSensitive]) { stage in
      try stage.turn { save_ledger(stage.directory, until(1.8)) }
    },
    Scenario("file-c-dsync", .c, .file, "append_to_ledger", [.loadSensitive]) { stage in
      try stage.turn { append_to_ledger(stage.directory, until(1.8)) }
    },
    // The whole file is in memory: the kernel computes.
    Scenario("file-c-reading", .c, .file, also: [.computing], "scan_archive") { stage in
      let path = "\(stage.directory)/archive"
      guard cause_fill_file(path, 64 << 20) == 0 else { throw Unavailable("no space left in \(stage.directory)") }
      try stage.turn { scan_archive(path, until(1.8)) }
    },
    Scenario("file-c-listing", .c, .file, also: [.computing], "list_spool_directory") { stage in
      try makeFiles(in: stage, 1000)
      try stage.turn { list_spool_directory(stage.directory, until(1.8)) }
    },
    Scenario("file-c-slow-disk", .c, .file, "scan_archive", [.root]) { stage in
      try withSlowDisk(stage) { path in try stage.turn { scan_archive(path, until(1.8)) } }
    },
    Scenario("file-swift-slow-disk", .swift, .file, "importOrders(from:until:)", [.root]) { stage in
      try withSlowDisk(stage) { path in try stage.turn { importOrders(from: path, until: until(1.8)) } }
    },
    Scenario("file-cpp-fdatasync", .cpp, .file, "shop::appendJournal", [.loadSensitive]) { stage in
      try stage.turn { enter_append_journal(stage.directory, until(1.8)) }
    },
    Scenario("file-cpp-flushing", .cpp, .file, also: [.computing], "shop::logRequests") { stage in
      try stage.turn { enter_log_requests(stage.directory, until(1.8)) }
    },
  ]
}

/// Runs `body` with an uncached file on a disk that is limited to half a megabyte a second.
func withSlowDisk(_ stage: Stage, _ body: (String) throws -> Void) throws {
  let path = "\(stage.directory)/index"
  guard cause_fill_file(path, 64 << 20) == 0 else { throw Unavailable("no space left in \(stage.directory)") }
  let disk = cause_forget_file(path)
  let device = "\(disk >> 32):\(disk & 0xffff_ffff)"
  let group = try ControlGroup(
    "blkio",
    settings: [("blkio.throttle.read_bps_device", "\(device) 500000")],
    orUnified: [("io.max", "\(device) rbps=500000")]
  )
  defer { group.leave() }
  try group.enter()
  try body(path)
}

private func makeFiles(in stage: Stage, _ count: UInt32) throws {
  let error = cause_make_files(stage.directory, count)
  guard error == 0 else { throw Unavailable("no files in \(stage.directory): \(String(cString: strerror(error)))") }
}

@inline(never) private func storeOrders(in directory: String, until end: UInt64) {
  let path = "\(directory)/orders"
  guard FileManager.default.createFile(atPath: path, contents: nil),
    let file = FileHandle(forWritingAtPath: path)
  else { return }
  let order = Data(repeating: 7, count: 20_000)
  while cause_now() < end {
    try? file.seek(toOffset: 0)
    try? file.write(contentsOf: order)
    try? file.synchronize()
    keep(1)
  }
  try? file.close()
}

@inline(never) private func importOrders(from path: String, until end: UInt64) {
  guard let file = FileHandle(forReadingAtPath: path) else { return }
  while cause_now() < end { keep((try? file.read(upToCount: 100_000))?.count ?? 0) }
  try? file.close()
}

@inline(never) private func loadTemplates(from directory: String, until end: UInt64) {
  while cause_now() < end {
    for number in 0..<300 {
      keep((try? Data(contentsOf: URL(fileURLWithPath: "\(directory)/order-\(number).json")))?.count ?? 0)
    }
  }
}
