import CulpritStallRecord

/// A cache of symbolized frames. Stacks share each frame's name, identity and owner.
struct FrameTable {
  /// The frames by address. An address has several if calls are inlined, or if the callee determines the function.
  private var frames: [StackFrame: [WeightedStack.Frame]] = [:]

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
