import CulpritStallRecord
import Testing

@testable import Culprit

@Suite struct SocketTableTests {
  private let tcp = """
      sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
       0: 0100007F:1F90 00000000:0000 0A 00000000:00000003 00:00000000 00000000     0        0 4711 1 0000000000000000 100 0 0 10 0
       1: 0100007F:C350 0300000A:1538 01 00001000:00000007 01:00000014 00000000  1000        0 4712 2 0000000000000000 20 4 30 10 -1
       2: 0100007F:C351 0300000A:1538 06 00000000:00000000 03:00000F5B 00000000     0        0 0 3 0000000000000000
    damaged 4713
    """

  @Test func parsesTCPConnections() {
    var table = SocketTable()
    table.add(internet: tcp, counts: true)
    let tail = [UInt8](repeating: 0, count: 8)
    #expect(table.entries.count == 2)
    #expect(table.entries[4711] == SocketTable.Entry(address: [2, 0, 0x1f, 0x90, 127, 0, 0, 1] + tail))
    #expect(
      table.entries[4712]
        == SocketTable.Entry(
          address: [2, 0, 0x15, 0x38, 10, 0, 0, 3] + tail,
          isPeersAddress: true,
          unreadBytes: 7,
          unsentBytes: 4096
        )
    )
  }

  /// The kernel counts a pending connection request as one unsent byte.
  @Test func omitsUnsentBytesWhileConnecting() {
    var table = SocketTable()
    table.add(internet: tcp.replacing(":1538 01 00001000:00000007", with: ":1538 02 00000001:00000000"), counts: true)
    let entry = table.entries[4712]
    #expect(entry?.isPeersAddress == true && entry?.unsentBytes == nil && entry?.unreadBytes == nil)
  }

  @Test func parsesIPv6AndUnixAddresses() {
    var table = SocketTable()
    table.add(
      internet: """
          sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
           0: 00000000000000000000000001000000:1F90 B80D0120000000000000000001000000:0050 01 00000000:00000000 00:00000000 00000000     0        0 77 1
        """,
      counts: false
    )
    let address: [UInt8] = [
      10, 0, 0, 80, 0, 0, 0, 0, 0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0,
    ]
    #expect(table.entries[77] == SocketTable.Entry(address: address, isPeersAddress: true))
    table.add(
      unix: """
        Num       RefCount Protocol Flags    Type St Inode Path
        0000000000000000: 00000002 00000000 00010000 0001 01 88 /run/db.sock
        0000000000000000: 00000003 00000000 00000000 0001 03 89
        0000000000000000: 00000002 00000000 00010000 0001 01 90 @abstract
        """
    )
    #expect(table.entries[88]?.address == [1, 0] + Array("/run/db.sock".utf8) && table.entries[89] == nil)
    #expect(table.entries[90]?.address == [1, 0, 0] + Array("abstract".utf8))
  }

  @Test(
    arguments: [("socket:[4711]", 4711), ("socket:[]", nil), ("pipe:[4711]", nil), ("/srv/socket:[1]", nil)]
      as [(String, UInt64?)]
  )
  func recognizesSocketTargets(target: String, inode: UInt64?) { #expect(SocketTable.inode(of: target) == inode) }
}
