import CulpritStallRecord
import SampleRecordings
import Testing

@testable import CulpritExports

/// Names come from requests, files and libraries. Their control characters must not take effect in exports.
@Suite struct HostileNameTests {
  private let recording = SampleRecordings.hostile()

  @Test(arguments: [ExportFormat.collapsed, .firefox, .chrome])
  func escapesControlCharacters(format: ExportFormat) throws {
    let text = try text(try export([recording], format))
    #expect(text.unicodeScalars.allSatisfy { $0 == "\n" || isPrintable($0) })
    #expect(text.utf8.count < 100_000)
  }

  @Test func keepsNamesInTheirFields() throws {
    let lines = try text(try export([recording], .collapsed)).split(separator: "\n", omittingEmptySubsequences: false)
    #expect(lines.last == "")
    #expect(lines.count == SampleRecordings.hostileNames.count + 1)
    for line in lines.dropLast() {
      #expect(line.split(separator: ";", omittingEmptySubsequences: false).count == 3)
      #expect(Int(line.split(separator: " ").last ?? "") == 100)
    }
    for format in [ExportFormat.firefox, .chrome] { _ = try JSON(bytes: try export([recording], format)) }
  }

  @Test func exportsAllNames() throws {
    let profile = try Pprof(try export([recording], .pprof))
    let names = Set(profile.functions.values.map(\.name))
    for name in SampleRecordings.hostileNames where name.count < 100 {
      let printed = printable(name)
      #expect(names.contains(printed.allSatisfy(\.isWhitespace) ? "(a name of spaces)" : printed))
    }
  }
}
