import CCulpritUnwind
import SplitMix
import Testing

/// Cached rules give the same frames as libunwind's steps.
@Suite struct RuleTests {
  /// The recorded stack, and variants with frames that lead nowhere or back.
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

  @Test(arguments: RecordedStack.everything) func rulesMatchLibunwind(stack: RecordedStack) throws {
    if let reason = FixtureUnwinder.missing(for: stack.architecture) { try Test.cancel("\(reason)") }
    let withRules = try FixtureUnwinder(stack.architecture, usesTables: true)
    let without = try FixtureUnwinder(stack.architecture, usesTables: true)
    without.useRules(false)
    for variant in variants(of: stack) {
      let expected = without.unwind(variant)
      #expect(withRules.unwind(variant) == expected, "cold")
      #expect(withRules.unwind(variant, remembers: true) == expected, "warm")
    }
  }

  @Test(arguments: RecordedStack.everything.filter { $0.name == "chain-c-1" })
  func reusesCachedRules(stack: RecordedStack) throws {
    if let reason = FixtureUnwinder.missing(for: stack.architecture) { try Test.cancel("\(reason)") }
    let unwinder = try FixtureUnwinder(stack.architecture, usesTables: true)
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
