import CulpritStallRecord
import Foundation
import TestSupport
import Testing

/// The command with a debuginfod server that accepts connections and never responds.
@Suite(.ownThread) struct SilentServerTests {
  @TemporaryDirectory private var directory: String

  /// Calls `body` with the environment that selects such a server.
  private func withServer(_ body: ([String: String]) throws -> Void) throws {
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    defer { close(descriptor) }
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = INADDR_LOOPBACK.bigEndian
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    let isListening = withUnsafeMutablePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        bind(descriptor, $0, length) == 0 && listen(descriptor, 64) == 0 && getsockname(descriptor, $0, &length) == 0
      }
    }
    try #require(isListening)
    let server = "http://127.0.0.1:\(UInt16(bigEndian: address.sin_port))"
    try body(["DEBUGINFOD_URLS": server, "DEBUGINFOD_CACHE_PATH": "\(directory)/cache"])
  }

  /// Returns the arguments that look up an address in a library without debug information.
  private func words() throws -> [String] {
    let library = try compiledLibrary(
      "int answer(void) { return 42; }",
      name: "bare",
      in: directory,
      options: ["-O1", "-Wl,--build-id"]
    )
    return ["symbolize", "-e", library, "-f", "0"]
  }

  @Test func givesUpAfterTimeout() throws {
    try withServer { environment in
      let child = try ChildProcess(
        "/usr/bin/timeout",
        try ["--signal=KILL", "60", ChildProcess.built("culprit")] + words(),
        environment: environment
      )
      #expect(child.status == 0 && child.output == "??\n??:0\n", "\(child)")
      let sentences = child.errors.split(separator: "\n")
      try #require(sentences.count == 2, "\(child)")
      let asking = "culprit: requesting debug information from DEBUGINFOD_URLS (build-id "
      #expect(sentences[0].hasPrefix(asking))
      let gaveUp = "culprit: no response from DEBUGINFOD_URLS for 15 s; continuing without it"
      #expect(sentences[1] == gaveUp)
    }
  }

  @Test func waitsOnlyOnce() throws {
    try withServer { environment in
      var modules: [Module] = []
      for number in 1...3 {
        let id = "0a0b0c0d\(number)\(number)"
        let path = try compiledLibrary(
          "int answer(void) { return \(number); }",
          name: "bare\(number)",
          in: directory,
          options: ["-O1", "-Wl,--build-id=0x\(id)"]
        )
        let start = UInt64(number) << 32
        let build = [0x0A, 0x0B, 0x0C, 0x0D, UInt8(number * 17)]
        modules.append(Module(path, build, at: start..<start + 0x10000))
      }
      // The function `answer` has one address in all modules.
      let table = try ChildProcess("/usr/bin/nm", [modules[0].path]).output.split(separator: "\n")
      let line = try #require(table.first { $0.hasSuffix(" answer") })
      let offset = try #require(UInt64(line.prefix(16), radix: 16))
      let frames = (1...3).map { StackFrame.programCounter(RuntimeAddress(UInt64($0) << 32 + offset)) }
      let recording = Recording(process: nil, modules: modules, stacks: [Stack(frames: frames, end: .outermost)])
      let (saved, named) = ("\(directory)/saved.stall", "\(directory)/named.stall")
      try Data(StallFileWriter.file(of: recording)).write(to: URL(fileURLWithPath: saved))
      let child = try ChildProcess(
        "/usr/bin/timeout",
        ["--signal=KILL", "60", ChildProcess.built("culprit"), "symbolize", "-o", named, saved],
        environment: environment
      )
      #expect(child.status == 0 && child.errors.split(separator: "\n").count == 2, "\(child)")
      let names = try StallFile(bytes: [UInt8](Data(contentsOf: URL(fileURLWithPath: named)))).recording.names
      #expect(names.values.map { $0.first?.function } == ["answer", "answer", "answer"])
    }
  }

  @Test func canBeInterrupted() throws {
    try withServer { environment in
      let said = "\(directory)/said"
      let command = try ([ChildProcess.built("culprit")] + words()).map { "'\($0)'" }.joined(separator: " ")
      let script = """
        \(command) 2>'\(said)' & command=$!
        until grep -q requesting '\(said)'; do kill -0 $command || exit 3; sleep 0.05; done
        kill -TERM $command
        wait $command
        """
      // Unblocks all signals, some of which the thread of the test can block.
      var none = sigset_t()
      var before = sigset_t()
      sigemptyset(&none)
      pthread_sigmask(SIG_SETMASK, &none, &before)
      defer { pthread_sigmask(SIG_SETMASK, &before, nil) }
      let child = try ChildProcess(
        "/usr/bin/timeout",
        ["--signal=KILL", "60", "/bin/bash", "-c", script],
        environment: environment
      )
      #expect(child.status == 128 + SIGTERM, "\(child)")
    }
  }
}
