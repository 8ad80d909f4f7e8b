import Foundation
import ChaparCore
import ChaparTesting
import Testing

@testable import ChaparDelivery

@Suite("The ids with which apps report arrivals", .timeLimit(.minutes(1)))
struct ReceiptKeysTests {
    private static let now = Date(timeIntervalSince1970: 1_800_000_000)
    private static let shop = AppName(rawValue: "shop")
    private static let apps = [AppName.default, shop]
    private static let day: TimeInterval = 86_400

    private func id(
        _ keys: ReceiptKeys,
        _ subject: ReceiptSubject = .delivery(42),
        of app: AppName = .default,
        at time: Date = now
    ) async throws -> String {
        try await keys.stamp(for: app, at: time).id(of: subject)
    }

    @Test(
        "say what they are about to every gateway on the store",
        arguments: [.delivery(0), .delivery(.max), .notification(7)] as [ReceiptSubject],
        apps
    )
    func shared(subject: ReceiptSubject, app: AppName) async throws {
        let store = MemoryState()
        let text = try await id(ReceiptKeys(store), subject, of: app)
        #expect(text.utf8.count == ReceiptKeys.length)
        #expect(text.utf8.allSatisfy { "-_".utf8.contains($0) || $0.isLetterOrDigit }, "\(text)")
        let other = ReceiptKeys(store)
        let read = try #require(try await other.read(text[...], of: Self.apps, at: Self.now))
        #expect(read.subject == subject && read.app == app)
    }

    @Test("are refused with any of their octets changed")
    func tampered() async throws {
        let keys = ReceiptKeys(MemoryState())
        let bytes = try #require(Base64URL.decode(try await id(keys)))
        for index in bytes.indices {
            for bit in 0..<8 {
                var changed = bytes
                changed[index] ^= 1 << bit
                let text = Base64URL.encode(changed)
                #expect(try await keys.read(text[...], of: Self.apps, at: Self.now) == nil, "\(index) \(bit)")
            }
        }
    }

    @Test(
        "are refused in any other form, without a look at the store",
        arguments: ["", "AAAA", String(repeating: "A", count: 31), String(repeating: "é", count: 16), "a b"]
    )
    func malformed(text: String) async throws {
        let store = MemoryState()
        store.fails = true
        #expect(try await ReceiptKeys(store).read(text[...], of: Self.apps, at: Self.now) == nil)
    }

    @Test("are refused when another installation made them, or for an app that sends none")
    func foreign() async throws {
        let keys = ReceiptKeys(MemoryState())
        let foreign = try await id(ReceiptKeys(MemoryState()))
        #expect(try await keys.read(foreign[...], of: Self.apps, at: Self.now) == nil)
        let own = try await id(keys, of: Self.shop)
        #expect(try await keys.read(own[...], of: [.default], at: Self.now) == nil)
        #expect(try await keys.read(own[...], of: Self.apps, at: Self.now) != nil)
    }

    @Test("have another key every 30 days, are good for 60 days and for 90 at most")
    func rotation() async throws {
        let keys = ReceiptKeys(MemoryState())
        let text = try await id(keys)
        for (days, isGood) in [(0.0, true), (59, true), (91, false), (3_650, false), (-1, true), (-90, false)] {
            let read = try await keys.read(text[...], of: Self.apps, at: Self.now + days * Self.day)
            #expect((read != nil) == isGood, "after \(days) days")
        }
        #expect(try await id(keys, at: Self.now + 31 * Self.day) != text)
        // Each key is derived from its whole number, though an id has a part of it only.
        let later = Self.now + 128 * ReceiptKeys.span
        let again = try await id(keys, at: later)
        #expect(again != text)
        #expect(try await keys.read(text[...], of: Self.apps, at: later) == nil)
    }

    @Test("have a new root everywhere after its lead, beside which those of the old one are taken until its end")
    func replaced() async throws {
        let store = MemoryState()
        let (one, other) = (ReceiptKeys(store), ReceiptKeys(store))
        let old = try await id(one)
        #expect(try await id(other) == old)
        let exchange = try #require(try await one.replaceRoot(keepingOldFor: 10 * 86_400, at: Self.now))
        #expect(exchange.roots == 2 && exchange.oldEnd == Self.now + 10 * Self.day)
        #expect(exchange.begin == Self.now + ReceiptKeys.lead)
        #expect(try await id(one) == old, "until every gateway has read the new one")
        let later = Self.now + ReceiptKeys.lead
        let new = try await id(one, at: later)
        #expect(new != old)
        // The other gateway has not been told: it reads the roots again.
        #expect(try await id(other, at: later) == new)
        let table: [(text: String, days: Double, isGood: Bool)] = [
            (old, 1, true), (new, 1, true), (old, 9.9, true), (old, 10.1, false), (new, 10.1, true),
        ]
        for keys in [one, other, ReceiptKeys(store)] {
            for (text, days, isGood) in table {
                let read = try await keys.read(text[...], of: Self.apps, at: Self.now + days * Self.day)
                #expect((read != nil) == isGood, "after \(days) days")
            }
        }
    }

    @Test("end at once where the root is replaced without a rest, on every gateway within half a minute")
    func replacedAtOnce() async throws {
        let store = MemoryState()
        let (one, other) = (ReceiptKeys(store), ReceiptKeys(store))
        let old = try await id(other)
        let exchange = try #require(try await one.replaceRoot(keepingOldFor: 0, at: Self.now))
        #expect(exchange.roots == 1 && exchange.begin == Self.now)
        #expect(try await one.read(old[...], of: Self.apps, at: Self.now) == nil)
        let noticed = Self.now + ReceiptKeys.readInterval
        #expect(try await other.read(old[...], of: Self.apps, at: noticed) == nil)
        #expect(try await other.read(try await id(one)[...], of: Self.apps, at: noticed) != nil)
    }

    @Test("have five roots at most, and one that ended makes room")
    func manyRoots() async throws {
        let keys = ReceiptKeys(MemoryState())
        for _ in 1..<ReceiptKeys.maximumRoots {
            #expect(try await keys.replaceRoot(keepingOldFor: 86_400, at: Self.now) != nil)
        }
        let text = try await id(keys)
        #expect(try await keys.replaceRoot(keepingOldFor: 86_400, at: Self.now) == nil)
        #expect(try await id(keys) == text, "nothing was changed")
        let exchange = try await keys.replaceRoot(keepingOldFor: 86_400, at: Self.now + 2 * Self.day)
        #expect(exchange?.roots == 2)
        #expect(try await keys.replaceRoot(keepingOldFor: 0, at: Self.now + 2 * Self.day)?.roots == 1)
    }

    @Test("have a new root where the key of the old one is lost, and the old one is kept aside")
    func lostKey() async throws {
        func key(_ number: UInt8) throws -> SealingKeys {
            let text = Secret(Data(repeating: number, count: 32).base64EncodedString())
            return SealingKeys(current: try #require(SealingKey(text)), old: [])
        }
        let memory = MemoryState()
        _ = try await id(ReceiptKeys(SealedState(memory, keys: try key(1))))
        let stored = memory.values
        let keys = ReceiptKeys(SealedState(memory, keys: try key(2)))
        await #expect(throws: StoreError.self) { _ = try await keys.stamp(for: .default, at: Self.now) }
        #expect(try await keys.replaceRoot(keepingOldFor: 86_400, at: Self.now)?.roots == 1)
        let text = try await id(keys)
        #expect(try await keys.read(text[...], of: Self.apps, at: Self.now) != nil)
        #expect(stored.allSatisfy { memory.values[$0.key] == $0.value }, "nothing was removed")
    }

    @Test("stay as they are while the store fails, also after the time of reading again")
    func failing() async throws {
        let store = MemoryState()
        let keys = ReceiptKeys(store)
        let text = try await id(keys)
        store.fails = true
        let later = Self.now + 2 * ReceiptKeys.readInterval
        #expect(try await keys.read(text[...], of: Self.apps, at: later) != nil)
        await #expect(throws: StoreError.self) { _ = try await keys.replaceRoot(keepingOldFor: 0, at: later) }
        #expect(try await id(keys, at: later) == text)
    }

    @Test(
        "are not made by a damaged list of roots",
        arguments: [[], [7], [UInt8](repeating: 7, count: 47), [UInt8](repeating: 7, count: 48 * 6)] as [[UInt8]]
    )
    func damagedRoots(list: [UInt8]) async throws {
        let store = MemoryState()
        store.values[ReceiptKeys.listName] = list
        let keys = ReceiptKeys(store)
        await #expect(throws: StoreError.self) { _ = try await keys.stamp(for: .default, at: Self.now) }
        #expect(try await keys.replaceRoot(keepingOldFor: 86_400, at: Self.now)?.roots == 1)
        #expect(try await keys.read(try await id(keys)[...], of: Self.apps, at: Self.now) != nil)
    }

    @Test("need the store's key: without it none is made, and the failure is told")
    func unreadable() async throws {
        let store = MemoryState()
        let keys = ReceiptKeys(store)
        store.fails = true
        await #expect(throws: StoreError.self) { _ = try await keys.stamp(for: .default, at: Self.now) }
        store.fails = false
        let text = try await id(keys)
        store.fails = true
        #expect(try await keys.read(text[...], of: Self.apps, at: Self.now) != nil, "the key is remembered")
    }
}

extension UInt8 {
    fileprivate var isLetterOrDigit: Bool {
        (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(self)
            || (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(self | 0x20)
    }
}
