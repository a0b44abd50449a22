/// The handler of a section, and the signal mask of the thread that began the section.
struct SectionHandler: Sendable {
  let mask = HandlerMask()
  let body: @Sendable (StallEvent) -> Void

  init(_ body: @escaping @Sendable (StallEvent) -> Void) { self.body = body }
}
