import Culprit
import CulpritVapor
import Testing
import Vapor

extension SerialTests {
  @Suite(.timeLimit(.minutes(1))) struct VaporTests {
    @Test func ownsTheWatchdog() async throws {
      let application = try await Application.make(Environment(name: "testing", arguments: ["test"]))
      let watchdog = try application.culprit.use(requests: .seconds(60), routes: ["/orders/:id": .milliseconds(210)])
      #expect(application.culprit.watchdog === watchdog)
      let began = AsyncStream.makeStream(of: Void.self)
      watchdog.onStallBegan { if $0.threshold == .milliseconds(210) { began.continuation.yield() } }
      application.get("orders", ":id") { _ in
        for await _ in began.stream { break }
        return "late"
      }
      var reports = watchdog.stalls.makeAsyncIterator()
      let loop = application.eventLoopGroup.any()
      let request = Request(application: application, method: .GET, url: "/orders/4712", on: loop)
      let response = try await application.responder.respond(to: request).get()
      #expect(response.body.string == "late")
      var report = await reports.next()
      while let other = report, other.threshold != .milliseconds(210) { report = await reports.next() }
      #expect(report?.source.name == "request")
      #expect(report?.labels.map(\.text) == ["GET /orders/4712"], "\(String(describing: report))")
      try await application.asyncShutdown()
      #expect(watchdog.status.mode == .stopped)
    }
  }
}
