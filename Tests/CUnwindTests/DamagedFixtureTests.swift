import CCulpritUnwind
import Testing

@Suite(.serialized) struct DamagedFixtureTests {
  /// Number of damaged copies of each recording.
  private static let rounds = 40
  /// CPU seconds allowed for a damaged stack, in a debug build on a busy machine.
  private static let limit = 5.0

  @Test(arguments: RecordedStack.everything) func survivesDamagedStacks(stack: RecordedStack) throws {
    var numbers = Numbers(state: stack.name.utf8.reduce(1) { $0 &* 31 &+ UInt64($1) })
    let unwinder = try FixtureUnwinder(stack.architecture)
    let whole = unwinder.unwind(stack)
    var changed = 0
    for _ in 0..<Self.rounds {
      let found = unwinder.unwind(damaged(stack, &numbers), joins: stack.after != nil)
      #expect(RecordedStack.ends.contains(found.end))
      #expect(found.frames.count <= Int(UNWIND_FRAMES_MAX))
      #expect(found.end != "outermost" || !found.frames.isEmpty)
      changed += found == whole ? 0 : 1
    }
    #expect(unwinder.slowest < Self.limit)
    // Most damage does not affect a stack that ends early.
    #expect(changed > 0, "no damage changed the result")
  }

  private func damaged(_ stack: RecordedStack, _ numbers: inout Numbers) -> RecordedStack {
    var result = stack
    for _ in 0...numbers.below(4) {
      switch numbers.below(6) {
      case 0:  // cut
        result.bytes.removeLast(numbers.below(result.bytes.count))
        result.isTruncated = numbers.below(2) == 0
      case 1:  // a word of the stack: random, or an address of the stack or of code
        let words = [numbers.next(), stack.stackStart &+ numbers.next() % 4096, stack.frames[0].address]
        let word = words[numbers.below(words.count)]
        result[result.stackStart + UInt64(numbers.below(max(1, result.bytes.count / 8)) * 8)] = word
      case 2:
        let number = Array(result.registers.keys).sorted()[numbers.below(result.registers.count)]
        result.registers[number] = [numbers.next(), 0, .max, stack.stackStart][numbers.below(4)]
      case 3 where !result.memory.isEmpty:
        result.memory.remove(at: numbers.below(result.memory.count))
      case _ where !result.memory.isEmpty:  // code, tables
        let piece = numbers.below(result.memory.count)
        for _ in 0...numbers.below(6) {
          let place = numbers.below(result.memory[piece].bytes.count)
          result.memory[piece].bytes[place] = UInt8(truncatingIfNeeded: numbers.next())
        }
      default: break
      }
    }
    return result
  }
}

/// SplitMix64 (Steele, Lea and Flood, 2014).
private struct Numbers: RandomNumberGenerator {
  var state: UInt64

  mutating func next() -> UInt64 {
    state &+= 0x9e37_79b9_7f4a_7c15
    var mixed = state
    mixed = (mixed ^ mixed >> 30) &* 0xbf58_476d_1ce4_e5b9
    mixed = (mixed ^ mixed >> 27) &* 0x94d0_49bb_1331_11eb
    return mixed ^ mixed >> 31
  }

  mutating func below(_ bound: Int) -> Int { Int(next() % UInt64(bound)) }
}
