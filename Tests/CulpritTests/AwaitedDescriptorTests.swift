import Foundation
import TestSupport
import Testing

@testable import Culprit

@Suite(.serialized, .usesObserver) struct AwaitedDescriptorTests {
  private func report(waitingFor descriptor: Int32, _ answer: @escaping @Sendable () -> Void) throws -> StallReport {
    let reports = Reports()
    let watchdog = try Watchdog(Watchdog.Configuration(threshold: .milliseconds(300), interval: .milliseconds(50)))
    defer { watchdog.stop() }
    watchdog.onStall { reports.add($0) }
    let loop = try watchdog.watchLoop(named: "orders")
    watchdog.onStallBegan { event in
      while event.report()?.culprit?.waiting?.target == nil { usleep(10_000) }
      answer()
    }
    loop.withTurn { waitForAByte(descriptor) }
    watchdog.stopPatiently()
    return try #require(reports.all.first)
  }

  @Test func namesAwaitedPipe() throws {
    var ends: [Int32] = [0, 0]
    try #require(pipe(&ends) == 0)
    defer { for end in ends { close(end) } }
    let end = ends[1]
    let report = try report(waitingFor: ends[0]) { _ = write(end, "1", 1) }
    #expect(report.culprit?.waiting?.target == "a pipe", "\(report)")
    let words = report.description.split { $0.isWhitespace }.joined(separator: " ")
    #expect(words.contains("mostly in read on a pipe"), "\(report)")
    #expect(report.raw.stall.samples.contains { $0.descriptor?.target.hasPrefix("pipe:[") == true })
  }

  @Test func namesPeerOfAwaitedSocket() throws {
    let listening = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    defer { close(listening) }
    var name = sockaddr_in()
    name.sin_family = sa_family_t(AF_INET)
    name.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
    var bytes = socklen_t(MemoryLayout<sockaddr_in>.size)
    let client = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    defer { close(client) }
    try withUnsafeMutablePointer(to: &name) { pointer in
      try pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { name in
        try #require(bind(listening, name, bytes) == 0 && listen(listening, 1) == 0)
        try #require(getsockname(listening, name, &bytes) == 0)
        try #require(connect(client, name, bytes) == 0)
      }
    }
    let server = accept(listening, nil, nil)
    defer { close(server) }
    let report = try report(waitingFor: client) { _ = write(server, "1", 1) }
    let port = UInt16(bigEndian: name.sin_port)
    #expect(report.culprit?.waiting?.target == "a socket to 127.0.0.1:\(port)", "\(report)")
    #expect(report.culprit?.waiting?.systemCall == "read")
  }
}

@inline(never)
private func waitForAByte(_ descriptor: Int32) {
  var byte: UInt8 = 0
  _ = read(descriptor, &byte, 1)
}
