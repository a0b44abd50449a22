import CulpritStallRecord

/// The merged functions of a file, and the function that a call of one means.
///
/// Swift's optimizer merges functions that differ only in constants into one (`…Tm`), which receives the constants as
/// arguments. Each original function is replaced by a short forwarder; direct calls pass the constants themselves. A
/// call of a forwarder means its function. A call that passes the constants of exactly one forwarder means that
/// function.
final class MergedFunctions {
  /// A forwarder and the constants that it passes.
  private struct Forwarder {
    var name: TextReference
    var constants: [Int32: MachineCode.Constant]
  }

  private let image: ElfImage
  private let table: SymbolTable
  /// Whether the function that begins at an address is in source code, according to debug information.
  private let isWritten: (UInt64) -> Bool
  /// Forwarders by the first address of the merged function.
  private var forwarders: [UInt64: [Forwarder]] = [:]
  /// Merged functions by the first address of the forwarder.
  private var forwarded: [UInt64: UInt64] = [:]
  /// Whether debug information distinguishes functions in source code from others.
  private let hasDebugInformation: Bool

  /// The maximum size of a forwarder; longer functions do other work.
  private static let forwarderBytesMax: UInt64 = 160
  /// The maximum size of a caller; following the code of longer functions takes too long.
  private static let callerBytesMax: UInt64 = 1 << 18

  /// Finds the merged functions of `image`, whose symbols are in `table`; `nil` if there are none.
  init?(
    _ image: ElfImage,
    _ table: SymbolTable,
    hasDebugInformation: Bool,
    isWritten: @escaping (UInt64) -> Bool
  ) {
    guard image.machine == ElfFormat.Machine.amd64 || image.machine == ElfFormat.Machine.aarch64 else { return nil }
    var merged: Set<UInt64> = []
    table.forEach { range, name in if Self.isMerged(name) { merged.insert(range.start) } }
    guard !merged.isEmpty else { return nil }
    self.image = image
    self.table = table
    self.hasDebugInformation = hasDebugInformation
    self.isWritten = isWritten
    var jumps: [(start: UInt64, name: TextReference, target: UInt64, constants: [Int32: MachineCode.Constant])] = []
    table.forEach { range, name in
      guard range.end - range.start <= Self.forwarderBytesMax, !Self.isMerged(name), name.string.hasPrefix("$s"),
        let jump = forwardingJump(range)
      else { return }
      jumps.append((range.start, name, jump.target, jump.registers))
    }
    // A forwarder can lead to another one.
    var targets = Dictionary(uniqueKeysWithValues: merged.map { ($0, $0) })
    for _ in 0..<4 {
      for jump in jumps where targets[jump.start] == nil {
        if let target = targets[jump.target] { targets[jump.start] = target }
      }
    }
    for jump in jumps {
      // Debug information is read only for forwarders to merged functions, because there are thousands of others.
      guard let target = targets[jump.start], !isWritten(jump.start) else { continue }
      forwarded[jump.start] = target
      if merged.contains(jump.target) {
        forwarders[target, default: []].append(Forwarder(name: jump.name, constants: jump.constants))
      }
    }
  }

  /// Returns the name of the function that the call before `next` means, and the first address of the merged function
  /// with its code; `nil` if no merged function is called there, or the function is ambiguous.
  func function(calledBefore next: UInt64) -> (name: TextReference, merged: UInt64)? {
    guard let caller = table.symbol(at: FileAddress(next - 1)),
      caller.range.end - caller.range.start <= Self.callerBytesMax,
      let target = callTarget(before: next)
    else { return nil }
    if let merged = forwarded[target], let name = table.symbol(at: FileAddress(target))?.name { return (name, merged) }
    guard let candidates = forwarders[target], hasDebugInformation, isWritten(caller.range.start),
      let call = code(caller.range)?.transfers()?.first(where: { $0.isCall && $0.next == next })
    else { return nil }
    let matching = candidates.filter { candidate in
      !candidate.constants.isEmpty && candidate.constants.allSatisfy { call.registers[$0.key] == $0.value }
    }
    guard let only = matching.first, matching.count == 1 else { return nil }
    return (only.name, target)
  }

  /// Returns the target of the call that ends at `next`.
  private func callTarget(before next: UInt64) -> UInt64? {
    let length: UInt64 = image.machine == ElfFormat.Machine.aarch64 ? 4 : 5
    guard next > length, let code = code(AddressRange(start: next - length, end: next)),
      let transfer = code.transfers()?.first, transfer.isCall, transfer.next == next
    else { return nil }
    return transfer.target
  }

  /// Returns the final jump of the forwarder in `range`; `nil` for other functions. A function in source code that ends
  /// with a call of a merged one looks the same but has debug information.
  private func forwardingJump(_ range: AddressRange) -> MachineCode.Transfer? {
    guard let code = code(range), let transfers = code.transfers() else { return nil }
    let leaving = transfers.filter { !range.contains($0.target) }
    guard let jump = leaving.first, jump.isLast else { return nil }
    var result = jump
    result.registers = jump.registers.filter { code.argumentRegisters.contains($0.key) }
    return result
  }

  private func code(_ range: AddressRange) -> MachineCode? {
    guard
      let section = image.sections.first(where: { section in
        section.isCode && section.address <= range.start && range.end <= section.end ?? 0
      }), let bytes = image.raw(section)?.part(range.start - section.address, range.end - range.start)
    else { return nil }
    return MachineCode(bytes.array, start: range.start, isArm: image.machine == ElfFormat.Machine.aarch64)
  }

  private static func isMerged(_ name: TextReference) -> Bool {
    guard name.count > 4 else { return false }
    // SAFETY: the name has `count` bytes, and the indices are below that.
    let bytes = UnsafeRawBufferPointer(start: name.base, count: name.count)
    return bytes[0] == UInt8(ascii: "$") && bytes[1] == UInt8(ascii: "s") && bytes[name.count - 2] == UInt8(ascii: "T")
      && bytes[name.count - 1] == UInt8(ascii: "m")
  }
}
