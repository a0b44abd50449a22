import BlackBox
import Glibc

/// Kills a service at random moments, half of them in mid-stall, and asks its next launch what happened.
struct BlackBoxSoak {
  /// How many services are killed.
  var kills: Int
  /// The moments follow from it.
  var seed: UInt64

  /// What the next launch must name.
  private static let culprit = "holdUp(_:)"

  /// Runs the soak and prints what came of it.
  ///
  /// - Parameter figures: Where the figures go.
  /// - Throws: ``BlackBoxSoakError`` when the service cannot be started.
  func run(_ figures: Figures) throws {
    figures.note("seed \(seed)")
    let directory = "/tmp/culprit-soak-\(getpid())"
    defer {
      empty(directory)
      rmdir(directory)
    }
    var random = seed
    var (hangs, reported, falseHangs, untold) = (0, 0, 0, 0)
    var worst: Int64 = 0
    for number in 0..<kills {
      let isStalled = number % 2 == 1
      random = random &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      let share = UInt32(truncatingIfNeeded: random >> 33)
      let service = try Service([directory, isStalled ? "stall" : "turn"])
      guard let began = service.line().split(separator: "=").last.flatMap({ Int64($0) }) else {
        throw BlackBoxSoakError(description: "the service did not begin")
      }
      // Past the threshold of 200 ms, with time for the record to reach the disk on a busy machine.
      usleep(isStalled ? 500_000 + share % 1_000_000 : share % 500_000)
      let lasted = now() - began
      kill(service.process, SIGKILL)
      service.end()
      let told = try Service([directory, "tell"])
      let text = told.rest()
      told.end()
      let lines = text.split(separator: "\n")
      if !lines.contains(where: { $0.hasPrefix("run=\(service.process) ") }) { untold += 1 }
      let found = lines.filter { $0.hasPrefix("hang=") }
      if isStalled {
        hangs += 1
        let fields = found.first?.split(separator: " ") ?? []
        if found.count == 1, fields.count >= 5, fields.contains(Self.culprit[...]),
          let duration = Int64(fields[fields.count - 3])
        {
          reported += 1
          worst = max(worst, abs(lasted - duration))
        }
      } else {
        falseHangs += found.count
      }
      empty(directory)
    }
    figures.print("blackbox.kills", Double(kills), "processes")
    figures.print("blackbox.hangs", Double(hangs), "processes")
    figures.print("blackbox.reported", Double(reported), "hangs", in: Double(hangs)...Double(hangs))
    figures.print("blackbox.false_hangs", Double(falseHangs), "processes", in: 0...0)
    figures.print("blackbox.untold", Double(untold), "processes", in: 0...0)
    figures.print("blackbox.duration_error_max", Double(worst) / 1e6, "ms", in: 0...250)
  }

  private func now() -> Int64 {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return Int64(time.tv_sec * 1_000_000_000 + time.tv_nsec)
  }

  private func empty(_ directory: String) {
    let names = (try? BlackBoxDirectory(path: directory).names([".run", ".told", ".stall"])) ?? []
    for name in names { unlink("\(directory)/\(name)") }
  }
}

/// A service that has been started, and what it says.
private final class Service {
  let process: pid_t
  private let output: Int32

  /// Starts `blackbox-process`, which is built beside this program.
  init(_ arguments: [String]) throws {
    var path = [CChar](repeating: 0, count: Int(PATH_MAX))
    let length = readlink("/proc/self/exe", &path, path.count - 1)
    let own = String(decoding: path.prefix(max(0, length)).map { UInt8(bitPattern: $0) }, as: UTF8.self)
    let program = own.split(separator: "/").dropLast().map { "/" + $0 }.joined() + "/blackbox-process"
    var ends: [Int32] = [0, 0]
    guard pipe(&ends) == 0 else { throw BlackBoxSoakError(description: String(cString: strerror(errno))) }
    for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO)
    defer { posix_spawn_file_actions_destroy(&actions) }
    var words: [UnsafeMutablePointer<CChar>?] = ([program] + arguments).map { strdup($0) } + [nil]
    defer { for word in words { free(word) } }
    var process: pid_t = 0
    let error = posix_spawn(&process, program, &actions, nil, &words, environ)
    close(ends[1])
    guard error == 0 else {
      close(ends[0])
      throw BlackBoxSoakError(description: "\(program): \(String(cString: strerror(error)))")
    }
    self.process = process
    output = ends[0]
  }

  deinit { close(output) }

  /// The next line that it says; empty at its end.
  func line() -> String {
    var bytes: [UInt8] = []
    var byte: UInt8 = 0
    while read(output, &byte, 1) == 1, byte != 10 { bytes.append(byte) }
    return String(decoding: bytes, as: UTF8.self)
  }

  /// Everything that it says until its end.
  func rest() -> String {
    var bytes: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 4096)
    while true {
      let count = read(output, &chunk, chunk.count)
      guard count > 0 else { return String(decoding: bytes, as: UTF8.self) }
      bytes += chunk[..<count]
    }
  }

  /// Waits until it has ended.
  func end() {
    var status: Int32 = 0
    while waitpid(process, &status, 0) < 0, errno == EINTR {}
  }
}

/// Why the soak cannot be run.
struct BlackBoxSoakError: Error, CustomStringConvertible {
  var description: String
}
