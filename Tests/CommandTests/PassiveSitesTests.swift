import Foundation
import Testing

/// `tools/passive-sites`, with a few places for each way to compile them.
@Suite(.serialized) struct PassiveSitesTests {
  private let tool = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
    .appendingPathComponent("../../tools/passive-sites").standardizedFileURL

  @Test func stacksReadFromOutsideAreThoseTakenBySignal() throws {
    let outcome = try run(tool, ["1", "2"])
    #expect(try figure("passive.sites", in: outcome.out) == 40, "\(outcome)")
    #expect(try figure("passive.equal", in: outcome.out) >= 99.5, "\(outcome)")
    #expect(try figure("passive.wrong", in: outcome.out) == 0)
  }

  @Test func mistakesAreTold() throws {
    #expect(try run(tool, ["1", "2", "cobol"]).status == 2)
  }
}
