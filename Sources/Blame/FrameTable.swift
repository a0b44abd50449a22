import CulpritStallRecord

/// The frames that stacks have in common, so that each has its name, its identity and its owner once.
struct FrameTable {
  /// By the address; of one there are several frames where calls were inlined, or where what is below tells which function it is.
  private var frames: [StackFrame: [WeightedStack.Frame]] = [:]

  /// The frame called `resolved`, which was `captured`. `owner` tells whose it is, where it is new.
  mutating func frame(
    _ resolved: ResolvedFrame,
    _ captured: StackFrame,
    owner: (ResolvedFrame) -> CodeOwner
  ) -> WeightedStack.Frame {
    if let known = frames[captured]?.first(where: { $0.resolved == resolved }) { return known }
    let frame = WeightedStack.Frame(resolved, owner: owner(resolved), captured: captured)
    frames[captured, default: []].append(frame)
    return frame
  }
}
