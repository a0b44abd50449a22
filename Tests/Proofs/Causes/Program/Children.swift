import CauseWork
import Foundation

extension Scenario {
  /// Waits for pipes and sockets to other processes, and for ends of child processes.
  static let otherProcesses = [
    Scenario("process-swift-pipe", .swift, .interProcess, "readForecast(from:)") { stage in
      let ends = try pipeEnds()
      let child = cause_late_writer(ends.write, 1800)
      try stage.turn { readForecast(from: ends.read) }
      cause_end_child(child)
    },
    Scenario("process-swift-full-pipe", .swift, .interProcess, "exportOrders(to:)") { stage in
      let ends = try pipeEnds()
      let child = cause_late_reader(ends.read, 1800)
      try stage.turn { exportOrders(to: FileHandle(fileDescriptor: ends.write)) }
      cause_end_child(child)
    },
    Scenario("process-swift-output", .swift, .interProcess, also: [.childProcess], "readVersion(of:)") { stage in
      let process = Process()
      process.executableURL = URL(fileURLWithPath: "/bin/sh")
      process.arguments = ["-c", "sleep 1.8; echo 7"]
      let pipe = Pipe()
      process.standardOutput = pipe
      try process.run()
      try stage.turn { readVersion(of: pipe) }
      process.waitUntilExit()
    },
    Scenario("process-c-pipe", .c, .interProcess, "read_stock_report") { stage in
      let ends = try pipeEnds()
      let child = cause_late_writer(ends.write, 1800)
      try stage.turn { read_stock_report(ends.read) }
      cause_end_child(child)
    },
    Scenario("process-c-full-pipe", .c, .interProcess, "send_backlog") { stage in
      let ends = try pipeEnds()
      let child = cause_late_reader(ends.read, 1800)
      try stage.turn { send_backlog(ends.write) }
      cause_end_child(child)
    },
    Scenario("process-c-named-pipe", .c, .interProcess, also: [.file], "open_order_pipe") { stage in
      let path = "\(stage.directory)/orders.pipe"
      guard mkfifo(path, 0o600) == 0 else { throw Unavailable("there are no named pipes in \(stage.directory)") }
      let child = cause_late_opener(path, 1800)
      try stage.turn { open_order_pipe(path) }
      cause_end_child(child)
    },
    Scenario("process-cpp-socket", .cpp, .interProcess, "shop::askHelper") { stage in
      var ends: [Int32] = [0, 0]
      guard socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends) == 0 else {
        throw Unavailable("there are no pairs of sockets")
      }
      let child = cause_late_writer(ends[1], 1800)
      try stage.turn { enter_ask_helper(ends[0]) }
      cause_end_child(child)
    },
    Scenario("child-swift-process", .swift, .childProcess, "convertDocument(with:)") { stage in
      let process = Process()
      process.executableURL = URL(fileURLWithPath: "/bin/sleep")
      process.arguments = ["1.8"]
      try process.run()
      try stage.turn { convertDocument(with: process) }
    },
    Scenario("child-c-wait", .c, .childProcess, "run_backup") { stage in
      let child = try started("/bin/sleep", "1.8")
      try stage.turn { run_backup(child) }
    },
    Scenario("child-c-system", .c, .childProcess, "run_night_script") { stage in
      try stage.turn { run_night_script() }
    },
    Scenario("child-cpp-wait", .cpp, .childProcess, "shop::convertImages") { stage in
      let child = try started("/bin/sleep", "1.8")
      try stage.turn { enter_convert_images(child) }
    },
  ]
}

func started(_ path: String, _ argument: String) throws -> pid_t {
  var words = [strdup(path), strdup(argument), nil]
  defer { for word in words { free(word) } }
  let child = cause_program(path, &words)
  guard child > 0 else { throw Unavailable("\(path) cannot be started") }
  return child
}

func pipeEnds() throws -> (read: Int32, write: Int32) {
  var ends: [Int32] = [0, 0]
  guard pipe(&ends) == 0 else { throw Unavailable("there are no pipes") }
  return (ends[0], ends[1])
}

@inline(never) private func readForecast(from descriptor: Int32) {
  var bytes = [UInt8](repeating: 0, count: 100)
  keep(read(descriptor, &bytes, bytes.count))
}

@inline(never) private func exportOrders(to file: FileHandle) {
  try? file.write(contentsOf: Data(repeating: 7, count: 1 << 18))
  keep(1)
}

@inline(never) private func readVersion(of pipe: Pipe) {
  keep((try? pipe.fileHandleForReading.readToEnd())?.count ?? 0)
  keep(2)
}

@inline(never) private func convertDocument(with process: Process) {
  process.waitUntilExit()
  keep(Int(process.terminationStatus))
}
