import Foundation
import TestSupport
import Testing

/// The example service as its user sees it: started, asked over HTTP, stopped with SIGTERM.
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

  /// The status line and body of the answer to a request.
  func request(_ method: String, _ path: String) throws -> (status: String, body: String) {
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    defer { close(descriptor) }
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = port.bigEndian
    address.sin_addr = in_addr(s_addr: UInt32(0x7f00_0001).bigEndian)
    let connected = withUnsafePointer(to: &address) { pointer in
      // SAFETY: connect takes any address type by the common head that sockaddr_in has too.
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

  /// Ends it in an orderly way and returns all that it printed after its first line.
  func stop() -> String {
    kill(process.id, SIGTERM)
    output += process.rest()
    return String(output.drop { $0 != "\n" }.dropFirst())
  }
}

@Suite struct ServiceTests {
  /// The whole path, from outside: a real service, a real request that stalls it, its report, the saved file, the command;
  /// then the same file when the executable is no longer the one that ran.
  @Test func aStalledServiceIsReportedTheSameWayTwice() throws {
    let directory = NSTemporaryDirectory() + "culprit-service-\(UUID().uuidString)"
    try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(atPath: directory) }
    // A copy, which can be replaced.
    let executable = "\(directory)/example-service"
    try FileManager.default.copyItem(atPath: builtProgram("example-service").path, toPath: executable)

    let service = try RunningService(executable: executable, ["--directory=\(directory)/stalls", "--width=100"])
    #expect(try service.request("GET", "/health").body == "ok\n")
    #expect(try service.request("GET", "/search?q=lamp0").body.hasSuffix(" documents\n"))
    #expect(try service.request("POST", "/rebuild").body == "rebuilt\n")
    #expect(try service.request("GET", "/nothing").status == "HTTP/1.1 404 Error")
    let report = service.stop()
    #expect(service.process.end() == (0, true))

    #expect(report.contains("CULPRIT   Catalog.rebuildIndex(for:) "))
    #expect(report.contains("Catalog.swift:"))
    // Which function of the snapshot the last sample hits is chance: the loop, what it calls, or the closure in that.
    #expect(report.contains(/would blame (closure #1 in )?Catalog\.(checksum|writeSnapshot)\(/))
    #expect(report.components(separatedBy: "STALL ").count == 2)

    let files = try FileManager.default.contentsOfDirectory(atPath: "\(directory)/stalls")
      .filter { $0.hasSuffix(".stall") }
    try #require(files.count == 1)
    let file = "\(directory)/stalls/\(files[0])"
    let saved = try culprit(["report", "--width=100", file])
    #expect(saved.status == 0)
    #expect(saved.out == report)

    try FileManager.default.removeItem(atPath: executable)
    try FileManager.default.copyItem(atPath: builtProgram("culprit").path, toPath: executable)
    let changed = try culprit(["report", "--width=400", file])
    #expect(changed.status == 0)
    #expect(changed.out.contains("no name in \(executable): the file has changed since: its build-id is "))
    #expect(!changed.out.contains("rebuildIndex"))
  }
}
