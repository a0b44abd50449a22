import CCulpritUnwind
import Foundation
import LibunwindOracle
import SplitMix
import Testing

@Suite struct RuleTests {
  /// The recorded stack, and variants with random changes.
  private func variants(of stack: RecordedStack) -> [RecordedStack] {
    var random = SplitMix(4711)
    return [stack]
      + (0..<24).map { _ in
        var other = stack
        for _ in 0..<Int.random(in: 1...4, using: &random) where other.bytes.count >= 8 {
          let at = Int.random(in: 0..<other.bytes.count / 8, using: &random) * 8
          let from = Int.random(in: 0..<other.bytes.count / 8, using: &random) * 8
          let isCopied = Bool.random(using: &random)
          for byte in 0..<8 {
            other.bytes[at + byte] = isCopied ? other.bytes[from + byte] : UInt8.random(in: 0...255, using: &random)
          }
        }
        return other
      }
  }

  @Test(arguments: RecordedStack.everything) func cachedRulesGiveTheSameFrames(stack: RecordedStack) throws {
    let (cold, warm) = (try FixtureUnwinder(stack.architecture), try FixtureUnwinder(stack.architecture))
    for variant in variants(of: stack) {
      #expect(warm.unwind(variant, remembers: true) == cold.unwind(variant))
    }
  }

  /// One step from each table row of a system library gives the same registers as libunwind.
  @Test(arguments: ["libc.so.6", "libstdc++.so.6", "libm.so.6", "libgcc_s.so.1", "libunwind.so.8"])
  func rulesMatchLibunwind(library: String) throws {
    let architecture = String(cString: try #require(cunwind_host()).pointee.name)
    if let reason = oracle_missing(architecture) { try Test.cancel("\(String(cString: reason))") }
    let folders = ["/usr/lib/\(architecture)-linux-gnu", "/lib/\(architecture)-linux-gnu", "/usr/lib64", "/lib64"]
    let path = folders.map { "\($0)/\(library)" }.first { FileManager.default.fileExists(atPath: $0) }
    guard let path else { try Test.cancel("\(library) is not installed") }
    var rows = oracle_rows()
    try #require(oracle_compare_rows(path, 4, &rows))
    #expect(rows.rows > 50 && rows.refused == 0 && rows.compared > rows.rows * 9 / 10)
    #expect(rows.different == 0, "\(String(rows.different_here, radix: 16))")
  }

  @Test(arguments: RecordedStack.everything.filter { $0.testDescription == "x86_64/chain-c-1" })
  func reusesCachedRules(stack: RecordedStack) throws {
    let unwinder = try FixtureUnwinder(stack.architecture)
    let found = unwinder.unwind(stack)
    var bare = stack
    let tables = stack.modules.map(\.header)
    #expect(!tables.isEmpty)
    let lookups = unwinder.moduleLookups
    #expect(unwinder.unwind(stack, remembers: true) == found)
    #expect(unwinder.moduleLookups < lookups / 2)
    bare.memory.removeAll { piece in
      tables.contains { $0 >= piece.address && $0 - piece.address < UInt64(piece.bytes.count) }
    }
    #expect(unwinder.unwind(bare, remembers: true) == found)
    #expect(unwinder.unwind(bare) != found)
  }
}
