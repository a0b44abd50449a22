import Foundation
import TestSupport
import Testing

@testable import Culprit

@Suite(.ownThread, .serialized) struct OutsideTests {
  @TemporaryDirectory private var directory: String

  private final class SilentServer {
    private let descriptor: Int32
    let port: UInt16

    init() throws {
      descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue), 0)
      var address = sockaddr_in()
      address.sin_family = sa_family_t(AF_INET)
      address.sin_addr.s_addr = INADDR_LOOPBACK.bigEndian
      var length = socklen_t(MemoryLayout<sockaddr_in>.size)
      let listener = descriptor
      let bound = withUnsafeMutablePointer(to: &address) { pointer in
        pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
          bind(listener, $0, length) == 0 && listen(listener, 64) == 0 && getsockname(listener, $0, &length) == 0
        }
      }
      port = UInt16(bigEndian: address.sin_port)
      try #require(bound, "\(String(cString: strerror(errno)))")
    }

    deinit { close(descriptor) }

    /// Whether a client has connected. The server never responds.
    var wasContacted: Bool {
      let connection = accept(descriptor, nil, nil)
      if connection >= 0 { close(connection) }
      return connection >= 0
    }
  }

  private func runScenario(_ words: [String], _ environment: [String: String]) throws -> ChildProcess {
    try ChildProcess(
      "/usr/bin/timeout",
      ["--signal=KILL", "60", ChildProcess.built("policy-process")] + words,
      environment: environment
    )
  }

  private func debuginfod(_ server: SilentServer, _ directory: String) -> [String: String] {
    ["DEBUGINFOD_URLS": "http://127.0.0.1:\(server.port)", "DEBUGINFOD_CACHE_PATH": "\(directory)/cache"]
  }

  @Test func fetchesNothingByDefault() throws {
    let server = try SilentServer()
    let child = try runScenario(["stall"], debuginfod(server, directory))
    #expect(child.output == "report=computeInTheWay(_:)\nstopped=true\n", "\(child)")
    #expect(!server.wasContacted)
  }

  @Test(arguments: ["wait", "stop"]) func unresponsiveServerDelaysNeitherReportNorStop(how: String) throws {
    let server = try SilentServer()
    var environment = debuginfod(server, directory)
    environment["CULPRIT_FETCH_DEBUG_INFORMATION"] = "yes"
    let child = try runScenario(["stall", how], environment)
    #expect(child.output == "report=computeInTheWay(_:)\nstopped=true\n", "\(child)")
    if how == "wait" { #expect(server.wasContacted, "libdebuginfod1 is not installed: tools/setup does that") }
  }

  @Test func stuckClientDelaysNeitherReportNorStop() throws {
    let source = """
      #include <stddef.h>
      #include <unistd.h>
      void *debuginfod_begin(void) { static int client; return &client; }
      void debuginfod_end(void *client) {}
      void debuginfod_set_progressfn(void *client, void *function) {}
      int debuginfod_find_debuginfo(void *client, const unsigned char *id, int length, char **path) {
        write(STDERR_FILENO, "asked\\n", 6);
        for (;;) pause();
      }
      """
    let library = try compiledLibrary(source, name: "client", in: directory)
    try FileManager.default.moveItem(atPath: library, toPath: "\(directory)/libdebuginfod.so.1")
    let places = [directory, ProcessInfo.processInfo.environment["LD_LIBRARY_PATH"]].compactMap { $0 }
    let child = try runScenario(
      ["stall", "wait"],
      [
        "LD_LIBRARY_PATH": places.joined(separator: ":"), "DEBUGINFOD_URLS": "http://127.0.0.1:1",
        "CULPRIT_FETCH_DEBUG_INFORMATION": "yes",
      ]
    )
    #expect(child.output == "report=computeInTheWay(_:)\nstopped=true\n", "\(child)")
    #expect(child.errors == "asked\n")
  }

  @Test func releasingActivityDoesNotBlock() throws {
    let child = try runScenario(["let-go"], [:])
    for fact in ["let go", "told", "stopped"] { #expect(child.fact(fact) == "true", "\(child)") }
    // Symbolizing would touch thousands of pages.
    let pages = try #require(child.fact("pages").flatMap { Int($0) })
    #expect(pages < 300, "\(child)")
  }

  @Test func survivesSettingsAtTheirLimits() throws {
    let child = try runScenario(["stall-at-limits", directory], [:])
    let facts = ["report=computeInTheWay(_:)", "length=true", "threads=true", "capture=true", "stopped=true"]
    #expect(child.output.split(separator: "\n").map(String.init) == facts, "\(child)")
  }

  @Test func configurationProblemsDoNotBlockCallers() throws {
    let child = try runScenario(["misconfigured"], ["CULPRIT_CONFIGURATION": "\(directory)/culprit.conf"])
    #expect(child.output == "problems=1\nmetrics=true\nstopped=true\n", "\(child)")
  }

  /// Expects `text` without terminal control characters and injected lines.
  private func expectHarmless(_ text: String, _ what: String) {
    for scalar in text.unicodeScalars where scalar != "\n" {
      switch scalar.properties.generalCategory {
      case .control, .format, .lineSeparator, .paragraphSeparator:
        Issue.record("U+\(String(scalar.value, radix: 16)) in \(what): \(text.debugDescription)")
        return
      default: continue
      }
    }
    let injected = text.split(separator: "\n").first { $0.drop { $0 == " " }.hasPrefix("INJECT") }
    #expect(injected == nil, "\(what): \(text.debugDescription)")
  }

  private static let nasty = "n\u{1B}[2J\u{7F}\u{9B}\u{2028}\u{2029}\u{202E}\u{2066}\u{200F}\r\nINJECTED"

  @Test func escapesControlCharacters() throws {
    let nasty = Self.nasty
    let file = "\(directory)/\(nasty).conf"
    try "threshold = \(nasty.filter { !$0.isNewline })\n\u{1B}[1mname = 1\n\u{9B}\n"
      .write(toFile: file, atomically: true, encoding: .utf8)
    let environment = [
      "CULPRIT_CONFIGURATION": file, "CULPRIT_INTERVAL": nasty, "CULPRIT_NASTY\u{1B}[1m\nINJECTED": "1",
      "CULPRIT_ENABLED": nasty, "CULPRIT_DIRECTORY_AGE": String(repeating: nasty, count: 3000),
      "NOTIFY_SOCKET": nasty, "WATCHDOG_USEC": nasty, "SWIFT_BACKTRACE": "enable=no",
    ]
    for run in 1...2 {
      let child = try runScenario(["nasty", directory], environment)
      #expect(!child.output.isEmpty && child.errors.contains("code 0x8badf00d"), "\(child)")
      #expect(run == 1 || child.output.contains("fatal hang"), "\(child)")
      #expect(child.errors.contains("its last reference was released"), "\(child)")
      expectHarmless(child.output, "standard output")
      expectHarmless(child.errors, "standard error")
      #expect(child.errors.utf8.count < 100_000, "a long value was printed in full")
    }
    let stalls = "\(directory)/\(nasty)"
    #expect(mkfifo("\(stalls)/culprit-x\u{1B}[1m.stall", 0o600) == 0)
    for words in [
      ["info", stalls], ["report", stalls], ["report", "--threads", stalls], ["report", "\(nasty)/missing"],
      ["info", "--modules", "\(nasty)/missing"], [nasty], ["report", "--\(nasty)"], ["report", "--width=\(nasty)"],
      ["symbolize", "-e", nasty, "0"], ["symbolize", "-e", "/bin/true", "--format=\(nasty)"],
      ["symbolize", "--build-id=\(nasty)"], ["symbolize", "--build-id=00ff", "--debug-dir=\(nasty)", "0"],
      ["symbolize", "-o", nasty, "\(nasty)/missing"], ["symbolize", "-o", "\(nasty)/missing", stalls],
    ] {
      let result = try ChildProcess(ChildProcess.built("culprit"), words, environment: [:])
      #expect(!(result.output + result.errors).isEmpty)
      expectHarmless(result.output, "\(words)")
      expectHarmless(result.errors, "\(words)")
    }
  }

  @Test(arguments: ["fifo", "/dev/zero", "/dev/tty", "/dev/full", "socket", "directory", "long", "newline"])
  func rejectsUnusableConfigurationFiles(what: String) throws {
    var path = what.hasPrefix("/") ? what : "\(directory)/\(what)"
    switch what {
    case "fifo": try #require(mkfifo(path, 0o600) == 0)
    case "directory": try #require(mkdir(path, 0o700) == 0)
    case "socket": try #require(mknod(path, S_IFSOCK | 0o600, 0) == 0)
    case "long": path = "/" + String(repeating: "x/", count: 1 << 15)
    case "newline": path = "\(directory)/a\nb"
    default: break
    }
    let child = try runScenario(["settings"], ["CULPRIT_CONFIGURATION": path])
    #expect(child.status == 0 && child.fact("threshold") == "4.0 seconds", "\(child)")
    #expect(child.errors.split(separator: "\n").count == 1 && child.errors.utf8.count < 2000, "\(child)")
    #expect(child.errors.hasPrefix("culprit: the configuration file "), "\(child)")
  }
}

@Suite(.usesObserver) struct LongPathTests {
  @TemporaryDirectory private var directory: String

  @Test func reportsOverlongPath() throws {
    for path in [String(repeating: "x/", count: 1 << 14), "x/" + String(repeating: "x", count: 300)] {
      let watchdog = try Watchdog(Watchdog.Configuration(directory: "\(directory)/\(path)"))
      let problems = watchdog.status.problems
      #expect(problems.count == 1 && watchdog.status.mode == .watching)
      #expect(problems.allSatisfy { $0.hasSuffix(": File name too long") && $0.count < 400 }, "\(problems)")
      watchdog.stop()
      let made = try FileManager.default.contentsOfDirectory(atPath: directory)
      #expect(made == [], "parent directories were left behind")
    }
  }
}
