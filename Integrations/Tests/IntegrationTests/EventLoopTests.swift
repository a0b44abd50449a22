import Culprit
import CulpritNIO
import Dispatch
import NIOPosix
import Testing

extension SerialTests {
  @Suite(.timeLimit(.minutes(1))) struct EventLoopTests {
    @Test func reportsStuckLoops() async throws {
      let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
      let watchdog = try Watchdog()
      try watchdog.watch(group, named: "stuck", threshold: .seconds(1))
      // The first probe identifies the thread of the loop.
      func probes() -> UInt64? { watchdog.metrics.sources.first { $0.source.name == "stuck #1" }?.latencies?.count }
      while probes() ?? 0 == 0 { try await Task.sleep(for: .milliseconds(5)) }
      let semaphore = DispatchSemaphore(value: 0)
      watchdog.onStallBegan(of: "stuck #1") { semaphore.signal() }
      var reports = watchdog.stalls.makeAsyncIterator()
      group.next().execute { blockOn(semaphore) }
      var report = try #require(await reports.next())
      while report.source.name != "stuck #1" { report = try #require(await reports.next()) }
      #expect(report.source.kind == .probedLoop)
      #expect(report.culprit?.function.name == "blockOn(_:)", "\(report)")
      await watchdog.stop()
      try await group.shutdownGracefully()
    }

    @Test func watchEndsWithTheGroup() async throws {
      let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
      let watchdog = try Watchdog()
      try watchdog.watch(group, named: "ended")
      func watched() -> Int? { watchdog.metrics.sources.first { $0.source.name == "ended #1" }?.watchedCount }
      #expect(watched() == 1)
      try await group.shutdownGracefully()
      while watched() != 0 { try await Task.sleep(for: .milliseconds(5)) }
      await watchdog.stop()
    }
  }
}
