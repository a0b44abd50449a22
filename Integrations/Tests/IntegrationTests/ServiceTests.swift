import Culprit
import CulpritServiceLifecycle
import Logging
import ServiceLifecycle
import Testing

extension SerialTests {
  @Suite(.timeLimit(.minutes(1))) struct ServiceTests {
    /// Shuts down the group as soon as this service runs.
    private struct Ending: Service {
      let group: AsyncStream<ServiceGroup>

      func run() async throws {
        for await group in group { await group.triggerGracefulShutdown() }
        try? await gracefulShutdown()
      }
    }

    @Test func stopsAtGracefulShutdown() async throws {
      let watchdog = try Watchdog()
      let (groups, continuation) = AsyncStream.makeStream(of: ServiceGroup.self)
      let services: [any Service] = [WatchdogService(watchdog), Ending(group: groups)]
      let group = ServiceGroup(services: services, logger: Logger(label: "group"))
      continuation.yield(group)
      continuation.finish()
      try await group.run()
      #expect(watchdog.status.mode == .stopped)
    }

    @Test func stopsWhenCancelled() async throws {
      let watchdog = try Watchdog()
      let task = Task { await WatchdogService(watchdog).run() }
      task.cancel()
      await task.value
      #expect(watchdog.status.mode == .stopped)
    }
  }
}
