import ChildProcesses
import FaultyDisks
import Foundation
import Testing

/// The recipe for Kubernetes, as a kubelet would run it.
@Suite struct ProbeTests {
  /// The command of the probe in docs/deploying.md, for a file at `path` that may be so many seconds old.
  private func probe(_ path: String, seconds: Int) throws -> [String] {
    let page = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appending(path: "../../docs/deploying.md")
    let text = try String(contentsOf: page, encoding: .utf8)
    let found = try #require(text.firstMatch(of: /command: \["sh", "-c", "(.*)"\]/))
    let command = String(found.1)
    try #require(command.contains("/tmp/alive") && command.hasSuffix(" -lt 30"))
    return ["-c", command.replacing("/tmp/alive", with: path).replacing("-lt 30", with: "-lt \(seconds)")]
  }

  @Test func aServiceIsAliveWhileNothingHangs() throws {
    let path = NSTemporaryDirectory() + "culprit-alive-\(UUID().uuidString)"
    defer { try? FileManager.default.removeItem(atPath: path) }
    let service = try ServiceProcess(besideThis: "policy-process", ["probe", path])
    defer {
      kill(service.process, SIGKILL)
      service.end()
    }
    _ = try #require(service.fact("ready"))
    let words = try probe(path, seconds: 3)
    func isAlive() throws -> Bool {
      let process = Process()
      process.executableURL = URL(fileURLWithPath: "/bin/sh")
      process.arguments = words
      process.standardError = FileHandle.nullDevice
      try process.run()
      process.waitUntilExit()
      return process.terminationStatus == 0
    }
    /// Asks until the answer is `answer`. The process ends by SIGALRM after 100 s, and says nothing then.
    func wait(until answer: Bool) throws {
      while try isAlive() != answer {
        try #require(!service.hasLeft)
        usleep(100_000)
      }
    }
    try wait(until: true)
    service.tell("hang")
    _ = try #require(service.fact("heard"))
    try wait(until: false)
    // It does not come back by itself.
    for _ in 0..<10 {
      #expect(try !isAlive())
      usleep(100_000)
    }
    service.tell("go on")
    #expect(service.fact("report") == "http")
    try wait(until: true)
  }
}
