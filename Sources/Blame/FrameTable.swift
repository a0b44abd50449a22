import CulpritStallRecord

/// A cache of symbolized frames, so that stacks share each frame's name, identity and owner.
struct FrameTable {
  /// The frames by address. An address can have several frames because of inlined calls, or because the callee
  /// determines which function is meant.
  private var frames: [StackFrame: [WeightedStack.Frame]] = [:]

  /// Returns the frame for `resolved` and `captured`. `owner` determines the owner of a new frame.
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
