import ChildProcesses
import FaultyDisks
import Foundation
import TestSupport
import Testing

@Suite(.ownThread) struct ProbeTests {
  private func probe(_ path: String) throws -> [String] {
    let page = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appending(path: "../../docs/deploying.md")
    let text = try String(contentsOf: page, encoding: .utf8)
    let found = try #require(text.firstMatch(of: /command: \["sh", "-c", "(.*)"\]/))
    let command = String(found.1)
    try #require(command.contains("/tmp/alive") && command.hasSuffix(" -lt 30"))
    return ["-c", command.replacing("/tmp/alive", with: path)]
  }

  @Test func failsWhileThreadHangs() throws {
    let path = NSTemporaryDirectory() + "culprit-alive-\(UUID().uuidString)"
    defer { try? FileManager.default.removeItem(atPath: path) }
    let service = try ServiceProcess(besideThis: "policy-process", ["probe", path])
    defer {
      kill(service.process, SIGKILL)
      service.end()
    }
    _ = try #require(service.fact("renewed"))
    let words = try probe(path)
    func isAlive() throws -> Bool {
      let process = Process()
      process.executableURL = URL(fileURLWithPath: "/bin/sh")
      process.arguments = words
      process.standardError = FileHandle.nullDevice
      try process.run()
      process.waitUntilExit()
      return process.terminationStatus == 0
    }
    func setAge(_ seconds: Double) throws {
      let date = Date(timeIntervalSinceNow: -seconds)
      try FileManager.default.setAttributes([.modificationDate: date], ofItemAtPath: path)
    }
    #expect(try isAlive())
    service.send("hang")
    _ = try #require(service.fact("hanging"))
    try setAge(20)
    #expect(try isAlive())
    try setAge(31)
    _ = try #require(service.fact("hanging"))
    #expect(try !isAlive())
    service.send("go on")
    #expect(service.fact("report") == "http")
    _ = try #require(service.fact("renewed"))
    #expect(try isAlive())
  }
}
