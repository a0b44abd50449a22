import CCulpritUnwind
import Testing

@Suite struct FixtureTests {
  /// The recordings include all kinds of docs/internals/unwinding.md, under these names.
  @Test(arguments: ["x86_64", "aarch64"]) func fixturesCoverEveryKind(architecture: String) throws {
    let names = Set(try RecordedStack.all(architecture).map(\.name))
    let kinds = """
      alternate-stack blocked blocked-aligned blocked-alloca blocked-array call-at-end chain-c++-1 chain-c-1 clang-async
      copy-too-short deep epilogue-1 epilogue-2 epilogue-4 exception-begins exception-handed-over-12
      exception-handed-over-6 gone joined-1 joined-2 leaf left-over-1 left-over-2 made-framed made-unframed
      no-cfi-framed no-cfi-goes-on no-cfi-jump-table no-cfi-jumped-framed no-cfi-jumped-leaf no-cfi-leaf
      no-cfi-unframed prologue-0 prologue-1 prologue-2 prologue-4 signal-frame stub stub-1 tail-jump tail-jump-inner
      unframed-prologue-1
      """.split { $0 == " " || $0 == "\n" }.map(String.init)
    let own = [
      "x86_64": ["chain-swift-1", "expression", "swift-async", "vdso-4"],
      "aarch64": ["signed-prologue-1", "signed-epilogue-1", "signed-tail-jump", "signed-exception-begins"],
    ]
    #expect(Set(kinds + (own[architecture] ?? [])).subtracting(names) == [])
  }

  /// The frames are exactly the recorded calls.
  @Test(arguments: RecordedStack.everything) func unwindsRecordedStack(stack: RecordedStack) throws {
    let unwinder = try FixtureUnwinder(stack.architecture)
    if let first = stack.after {
      _ = unwinder.unwind(try RecordedStack(architecture: stack.architecture, name: first), joins: true)
    }
    let found = unwinder.unwind(stack, joins: stack.after != nil)
    #expect(found.outcome == stack.found, "\(stack.kind)")
    #expect(found.frames == stack.frames(like: found), "\(stack.kind)")
  }

  @Test(arguments: ["x86_64", "aarch64"]) func wipesMemoryReadBesidesCopy(architecture: String) throws {
    let all = try RecordedStack.all(architecture)
    var stack = try #require(
      all.first { $0.after == nil && !$0.isTruncated && $0.ownBytes.isEmpty && $0.found.count > 5 }
    )
    // Instead of a copied stack, memory filled with a mark.
    let mark: UInt8 = 0xa7
    let (first, last) = (
      stack.stackStart / 4096 * 4096, (stack.stackStart + UInt64(stack.bytes.count)) / 4096 * 4096 + 4096
    )
    var bytes = [UInt8](repeating: mark, count: Int(last - first))
    bytes.replaceSubrange(
      Int(stack.stackStart - first)..<Int(stack.stackStart - first) + stack.bytes.count,
      with: stack.bytes
    )
    stack.memory =
      (stack.memory.filter { $0.address < first || $0.address >= last } + [
        RecordedStack.Piece(address: first, bytes: bytes)
      ])
      .sorted { $0.address < $1.address }
    (stack.bytes, stack.stackStart, stack.stackEnd) = ([], 1 << 20, 1 << 20)
    let unwinder = try FixtureUnwinder(architecture)
    #expect(unwinder.unwind(stack).outcome.count > 5)
    #expect(unwinder.holds(mark))
    unwinder.wipe()
    #expect(!unwinder.holds(mark))
  }

  @Test(arguments: RecordedStack.everything.filter { $0.after == nil }) func stopsWithoutMemory(stack: RecordedStack)
    throws
  {
    var bare = stack
    bare.memory = []
    let found = try FixtureUnwinder(stack.architecture).unwind(bare)
    #expect(found.end != "outermost")
    #expect(found.frames == Array(stack.frames.prefix(found.frames.count)))
  }

  /// The cache makes deep stacks cheap.
  @Test(arguments: RecordedStack.everything.filter { $0.name == "deep" })
  func looksUpRecursiveFunctionOnce(stack: RecordedStack) throws {
    let unwinder = try FixtureUnwinder(stack.architecture)
    let found = unwinder.unwind(stack)
    // Each frame needs one lookup of its module.
    #expect(unwinder.moduleLookups < found.outcome.count * 3 / 2)
  }
}

extension RecordedStack {
  /// The true frames, as many as in `found`: the innermost frames, and the outermost ones after a gap or a join.
  func frames(like found: FixtureUnwinder.Found) -> [Frame] {
    let count = found.frames.count
    let inner = found.joinedFrom > 0 ? found.joinedFrom : found.leftOut > 0 ? Int(UNWIND_FRAMES_INNER) : count
    return Array(frames.prefix(inner)) + Array(frames.suffix(count - min(inner, count)))
  }
}
