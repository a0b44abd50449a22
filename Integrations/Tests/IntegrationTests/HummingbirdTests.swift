import Culprit
import CulpritHummingbird
import Hummingbird
import HummingbirdTesting
import Testing

extension SerialTests {
  @Suite(.timeLimit(.minutes(1))) struct HummingbirdTests {
    @Test func requestsHaveTheThresholdOfTheirRoute() async throws {
      let watchdog = try Watchdog()
      let router = Router()
      router.add(
        middleware: StallMiddleware(watchdog, threshold: .seconds(60), routes: ["/orders/{id}": .milliseconds(200)])
      )
      let began = AsyncStream.makeStream(of: Void.self)
      watchdog.onStallBegan(of: "request") { began.continuation.yield() }
      router.get("orders/:id") { _, _ in
        for await _ in began.stream { break }
        return "late"
      }
      var reports = watchdog.stalls.makeAsyncIterator()
      try await Application(router: router).test(.router) { client in
        try await client.execute(uri: "/orders/4711", method: .get) { #expect(String(buffer: $0.body) == "late") }
      }
      var report = try #require(await reports.next())
      while report.source.name != "request" { report = try #require(await reports.next()) }
      #expect(report.threshold == .milliseconds(200))
      #expect(report.labels.map(\.text) == ["GET /orders/4711"], "\(report)")
      await watchdog.stop()
    }
  }
}
