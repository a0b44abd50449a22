import CulpritStallRecord
import Foundation
import TestSupport
import Testing

/// The example service as a separate process, used over HTTP and stopped with SIGTERM.
private final class RunningService {
  let process: RunningProcess
  private(set) var output = ""
  private(set) var port: UInt16 = 0

  init(executable: String, _ arguments: [String]) throws {
    process = try RunningProcess(executable, arguments)
    while !output.contains("\n") {
      let text = process.next()
      try #require(!text.isEmpty, "the service ended: \(output)")
      output += text
    }
    port = UInt16(output.prefix { $0 != "\n" }.split(separator: ":").last ?? "") ?? 0
  }

  /// Returns the status line and body of the response.
  func request(_ method: String, _ path: String) throws -> (status: String, body: String) {
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    defer { close(descriptor) }
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = port.bigEndian
    address.sin_addr = in_addr(s_addr: UInt32(0x7f00_0001).bigEndian)
    let connected = withUnsafePointer(to: &address) { pointer in
      // SAFETY: sockaddr_in begins with the header of sockaddr, and connect(2) gets the size of sockaddr_in.
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
      }
    }
    try #require(connected == 0)
    let text = Array("\(method) \(path) HTTP/1.1\r\nHost: localhost\r\n\r\n".utf8)
    try #require(write(descriptor, text, text.count) == text.count)
    var answer: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 4096)
    while true {
      let count = read(descriptor, &chunk, chunk.count)
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { break }
      answer += chunk[..<count]
    }
    let parts = String(decoding: answer, as: UTF8.self).components(separatedBy: "\r\n\r\n")
    return (String(parts[0].prefix { $0 != "\r\n" }), parts.count > 1 ? parts[1] : "")
  }

  /// Waits for a report, because on a busy machine the service shortens its last report to one line.
  func waitForReport() throws {
    while !output.contains("\nSTALL ") {
      let text = process.next()
      try #require(!text.isEmpty, "the service ended: \(output)")
      output += text
    }
  }

  /// Stops the service and returns its output after the first line.
  func stop() -> String {
    kill(process.id, SIGTERM)
    output += process.rest()
    return String(output.drop { $0 != "\n" }.dropFirst())
  }
}

@Suite(.ownThread) struct ServiceTests {
  @TemporaryDirectory private var directory: String

  /// The service and `culprit report` must print the same report, also after the executable was replaced.
  @Test func reproducesReportFromSavedFile() throws {
    // A copy that the test can replace.
    let executable = "\(directory)/example-service"
    try ChildProcess.copyProgram(builtProgram("example-service").path, to: executable)

    // The threshold is one second less than the stall.
    let words = ["--directory=\(directory)/stalls", "--width=100", "--threshold=4100"]
    let service = try RunningService(executable: executable, words)
    #expect(try service.request("GET", "/health").body == "ok\n")
    #expect(try service.request("GET", "/search?q=lamp0").body.hasSuffix(" documents\n"))
    #expect(try service.request("POST", "/rebuild").body == "rebuilt\n")
    #expect(try service.request("GET", "/nothing").status == "HTTP/1.1 404 Error")
    try service.waitForReport()
    let report = service.stop()
    #expect(service.process.end() == (0, true))

    #expect(report.contains("CULPRIT   Catalog.rebuildIndex(for:) "))
    #expect(report.contains("Catalog.swift:"))
    // The last sample hits the loop, its callee or its closure.
    #expect(report.contains(/would blame (closure in )?Catalog\.(checksum|writeSnapshot)\(/))
    #expect(report.components(separatedBy: "STALL ").count == 2)

    let files = try FileManager.default.contentsOfDirectory(atPath: "\(directory)/stalls")
      .filter { $0.hasSuffix(".stall") }
    try #require(files.count == 1)
    let file = "\(directory)/stalls/\(files[0])"
    let saved = try culprit(["report", "--width=100", file])
    #expect(saved.status == 0)
    #expect(saved.out == report)

    // The file keeps names that deployments strip from the executable.
    let nameless = "\(directory)/nameless.stall"
    try withoutNames(file, to: nameless)
    let original = "\(directory)/builds/41"
    try FileManager.default.createDirectory(atPath: original, withIntermediateDirectories: true)
    try FileManager.default.copyItem(atPath: executable, toPath: "\(original)/example-service")
    let changes: [(reason: String, change: () throws -> Void)] = [
      ("the file has no symbols", { try shell("strip -o '\(executable).new' '\(executable)'") }),
      (
        "the file has changed since: its build-id is ",
        { try FileManager.default.copyItem(atPath: builtProgram("culprit").path, toPath: "\(executable).new") }
      ),
      ("cannot open \(executable): No such file or directory", {}),
    ]
    for (reason, change) in changes {
      try change()
      try FileManager.default.removeItem(atPath: executable)
      if FileManager.default.fileExists(atPath: "\(executable).new") {
        try FileManager.default.moveItem(atPath: "\(executable).new", toPath: executable)
      }
      let later = try culprit(["report", "--width=100", file])
      #expect(later.status == 0 && later.out == report, "\(reason)")
      let bare = try culprit(["report", "--width=1000", nameless])
      #expect(bare.status == 0)
      #expect(bare.out.contains("no name in \(executable): \(reason)"), "\(bare.out)")
      #expect(bare.out.components(separatedBy: "--debug-dir").count == 2, "\(bare.out)")
      #expect(!bare.out.contains("rebuildIndex") && bare.out.contains("CULPRIT   example-service+0x"), "\(bare.out)")
      #expect(share(bare.out) == share(report), "\(bare.out)")
      let found = try culprit(["report", "--width=100", "--debug-dir=\(original)", nameless])
      #expect(found.status == 0 && found.out == report, "\(reason): \(found.out)")
    }
  }

  private func share(_ report: String) -> Substring? { report.firstMatch(of: /CULPRIT .* ([0-9]+ %) of/)?.1 }

  private func shell(_ command: String) throws {
    let child = try ChildProcess("/bin/sh", ["-c", command], keepsErrors: true)
    try #require(child.hasExited && child.status == 0, "\(child.errors)")
  }

  /// Writes `file` to `other` without names, but with the function starts that unwinding found.
  private func withoutNames(_ file: String, to other: String) throws {
    var recording = try StallFile(bytes: [UInt8](Data(contentsOf: URL(fileURLWithPath: file)))).recording
    for stack in recording.stacks.indices {
      for frame in recording.stacks[stack].frames.indices {
        let address = recording.stacks[stack].frames[frame].lookupAddress
        guard let start = recording.names[address]?.last?.start,
          let bias = recording.modules.first(where: { $0.contains(address) })?.bias
        else { continue }
        recording.stacks[stack].frames[frame].functionStart = RuntimeAddress(start.value &+ bias)
      }
    }
    recording.names = [:]
    try Data(StallFileWriter.file(of: recording)).write(to: URL(fileURLWithPath: other))
  }
}
