import Culprit
import CulpritLogging
import InMemoryLogging
import Logging
import Testing

extension SerialTests {
  @Suite(.timeLimit(.minutes(1))) struct LoggingTests {
    @Test func logsOneLineAndTheText() async throws {
      let handler = InMemoryLogHandler()
      var logger = Logger(label: "test") { _ in handler }
      logger.logLevel = .debug
      let watchdog = try Watchdog(logger: logger)
      watchdog.stallSection("logged")
      await watchdog.stop(patience: .seconds(50))
      let entries = handler.entries
      let line = try #require(entries.first { $0.metadata["culprit.source.name"] == "logged" }, "\(entries)")
      #expect(line.level == .warning)
      #expect(line.message.description.contains("blockOn(_:)"), "\(line.message)")
      #expect(!line.message.description.contains("\n"))
      #expect(line.metadata["code.function.name"] == "blockOn(_:)")
      let text = entries.first { $0.level == .debug && $0.message.description.contains("section \"logged\"") }
      #expect(text?.message.description.contains("CULPRIT   blockOn(_:)") == true, "\(entries)")
    }

    @Test func logsNoTextAboveDebug() async throws {
      let handler = InMemoryLogHandler()
      var logger = Logger(label: "test") { _ in handler }
      logger.logLevel = .info
      let watchdog = try Watchdog(logger: logger)
      watchdog.stallSection("short")
      await watchdog.stop(patience: .seconds(50))
      #expect(handler.entries.contains { $0.metadata["culprit.source.name"] == "short" })
      #expect(!handler.entries.contains { $0.message.description.contains("\n") })
    }
  }
}
