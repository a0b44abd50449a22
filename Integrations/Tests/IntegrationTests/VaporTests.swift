import Culprit
import CulpritVapor
import Testing
import Vapor

@Suite(.timeLimit(.minutes(1))) struct VaporTests {
  @Test func ownsTheWatchdog() async throws {
    let application = try await Application.make(Environment(name: "testing", arguments: ["test"]))
    try application.culprit.use(requests: .seconds(60), routes: ["/orders/:id": .milliseconds(200)])
    let watchdog = try #require(application.culprit.watchdog)
    let began = AsyncStream.makeStream(of: Void.self)
    watchdog.onStallBegan { if $0.threshold == .milliseconds(200) { began.continuation.yield() } }
    application.get("orders", ":id") { _ in
      for await _ in began.stream { break }
      return "late"
    }
    var reports = watchdog.stalls.makeAsyncIterator()
    let request = Request(
      application: application,
      method: .GET,
      url: "/orders/4712",
      on: application.eventLoopGroup.any()
    )
    let response = try await application.responder.respond(to: request).get()
    #expect(response.body.string == "late")
    var report = try #require(await reports.next())
    while report.source.name != "request" || report.labels.first?.text != "GET /orders/4712" {
      report = try #require(await reports.next())
    }
    #expect(report.threshold == .milliseconds(200))
    try await application.asyncShutdown()
    #expect(watchdog.status.mode == .stopped)
  }
}
