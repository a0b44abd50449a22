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

  /// Programs in C are run instruction by instruction, and unwound at each.
  @Test func stacksAreRightAtEveryInstruction() throws {
    #if arch(x86_64)
      let outcome = try run(tool, ["--record", "--survey", "x86_64", "quick"])
      #expect(outcome.status == 0, "\(outcome)")
      // "gcc -O2 …: plain 333 equal, 0 cut, 0 wrong; with tables …; blocked plain …; blocked with tables …"
      let counts = outcome.out.split(separator: "\n").filter { !$0.hasPrefix("#") }
        .map { line in
          line.split(whereSeparator: { ":;,".contains($0) }).flatMap { $0.split(separator: " ") }.compactMap { Int($0) }
            .suffix(12).map(\.self)
        }
      try #require(counts.count == 8 && counts.allSatisfy { $0.count == 12 }, "\(outcome)")
      #expect(counts.allSatisfy { $0[0] > 300 && $0[3] > 300 && $0[6] > 300 && $0[9] > 300 }, "\(outcome)")
      // Code alone does not always tell how far a stack goes. With tables it does.
      #expect(counts.allSatisfy { $0[1] <= $0[0] / 10 && $0[7] <= $0[6] / 2 }, "\(outcome)")
      #expect(counts.allSatisfy { $0[4] == 0 && $0[5] == 0 && $0[10] == 0 && $0[11] == 0 }, "\(outcome)")
      // One stack in 4,000 is wrong where only two registers are known and there are no tables.
      #expect(counts.allSatisfy { $0[2] == 0 && $0[8] <= 1 }, "\(outcome)")
    #else
      try Test.cancel("programs of x86_64 are run here")
    #endif
  }
}
