import Culprit
import CulpritTracing
import InMemoryTracing
import Testing
import Tracing

extension SerialTests {
  @Suite(.timeLimit(.minutes(1))) struct TracingTests {
    /// The tracer of the process, set once.
    private static let tracer = {
      let tracer = InMemoryTracer()
      InstrumentationSystem.bootstrap(tracer)
      return tracer
    }()

    @Test func addsAnEventToTheActiveSpan() async throws {
      let tracer = Self.tracer
      let watchdog = try Watchdog()
      let result = await withSpan("GET /orders/{id}") { span in
        await watchdog.withTracedRequest(name: "traced", threshold: .seconds(1)) {
          blockUntil { tracer.activeSpan(identifiedBy: span.context)?.events.isEmpty == false }
          return 7
        }
      }
      #expect(result == 7)
      await watchdog.stop()
      let span = try #require(tracer.finishedSpans.first { $0.operationName == "GET /orders/{id}" })
      let event = try #require(span.events.first)
      #expect(span.events.count == 1 && event.name == "culprit.stall")
      #expect(event.attributes.get("culprit.source.name")?.toSpanAttribute() == .string("traced"))
      #expect(event.attributes.get("code.function.name")?.toSpanAttribute() == .string("blockUntil(_:)"), "\(event)")
    }

    @Test func requestsInTimeHaveNoEvent() async throws {
      let tracer = Self.tracer
      let watchdog = try Watchdog()
      await withSpan("GET /quick") { _ in await watchdog.withTracedRequest(threshold: .seconds(60)) {} }
      await watchdog.stop()
      #expect(tracer.finishedSpans.first { $0.operationName == "GET /quick" }?.events.isEmpty == true)
    }
  }
}
