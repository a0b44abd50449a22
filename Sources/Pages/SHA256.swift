/// SHA-256 (FIPS 180-4). The content security policy identifies the page's script and style by their digests.
enum SHA256 {
  private static let constants: [UInt32] = {
    let primes = (2...311).filter { number in !(2..<number).contains { number % $0 == 0 } }
    return primes.map { fraction(of: $0, root: 3) }
  }()

  /// Returns the first 32 bits of the fractional part of the `root`th root of `number`.
  private static func fraction(of number: Int, root: Int) -> UInt32 {
    // The largest integer whose power does not exceed number · 2^(32 · root), determined bit by bit.
    var whole: UInt64 = 0
    for bit in stride(from: 36, through: 0, by: -1) {
      let candidate = whole | 1 << UInt64(bit)
      if isPower(candidate, root, atMost: UInt64(number)) { whole = candidate }
    }
    return UInt32(truncatingIfNeeded: whole)
  }

  /// Whether (`candidate` / 2^32)^`root` is at most `number`. A candidate has at most 37 bits.
  private static func isPower(_ candidate: UInt64, _ root: Int, atMost number: UInt64) -> Bool {
    let square = candidate.multipliedFullWidth(by: candidate)
    if root == 2 { return (square.high, square.low) <= (number, 0) }
    let cube = candidate.multipliedFullWidth(by: square.low)
    return (cube.high + candidate * square.high, cube.low) <= (number << 32, 0)
  }

  /// Returns the 32-byte digest of `message`.
  static func digest(_ message: [UInt8]) -> [UInt8] {
    var state = [2, 3, 5, 7, 11, 13, 17, 19].map { fraction(of: $0, root: 2) }
    var padded = message + [0x80]
    padded += [UInt8](repeating: 0, count: (120 - padded.count % 64) % 64)
    padded += bytes(of: UInt64(message.count) * 8)
    for block in stride(from: 0, to: padded.count, by: 64) { add(padded[block..<block + 64], to: &state) }
    return state.flatMap(bytes)
  }

  private static func bytes(of number: some FixedWidthInteger) -> [UInt8] {
    stride(from: number.bitWidth - 8, through: 0, by: -8).map { UInt8(truncatingIfNeeded: number >> $0) }
  }

  private static func add(_ block: ArraySlice<UInt8>, to state: inout [UInt32]) {
    func turned(_ word: UInt32, _ bits: UInt32) -> UInt32 { word >> bits | word << (32 - bits) }
    var words = stride(from: block.startIndex, to: block.endIndex, by: 4)
      .map { place in block[place..<place + 4].reduce(UInt32(0)) { $0 << 8 | UInt32($1) } }
    for number in 16..<64 {
      let (one, other) = (words[number - 15], words[number - 2])
      let low = turned(one, 7) ^ turned(one, 18) ^ one >> 3
      let high = turned(other, 17) ^ turned(other, 19) ^ other >> 10
      words.append(words[number - 16] &+ low &+ words[number - 7] &+ high)
    }
    var mixed = state
    for number in 0..<64 {
      let (first, fifth) = (mixed[0], mixed[4])
      let choice = fifth & mixed[5] ^ ~fifth & mixed[6]
      let majority = first & mixed[1] ^ first & mixed[2] ^ mixed[1] & mixed[2]
      let high = turned(fifth, 6) ^ turned(fifth, 11) ^ turned(fifth, 25)
      let low = turned(first, 2) ^ turned(first, 13) ^ turned(first, 22)
      let left = mixed[7] &+ high &+ choice &+ constants[number] &+ words[number]
      mixed = [left &+ low &+ majority, first, mixed[1], mixed[2], mixed[3] &+ left, fifth, mixed[5], mixed[6]]
    }
    for place in state.indices { state[place] = state[place] &+ mixed[place] }
  }
}
