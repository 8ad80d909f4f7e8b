import ChaparComposition
import ChaparCore
import ChaparQueue
import Foundation
import Testing

@Suite("A trace context")
struct TraceContextTests {
    private static let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

    @Test("is read as the specification says")
    func valid() throws {
        let context = try #require(TraceContext(traceparent: Self.parent, tracestate: "congo=t61rcWkgMzE,rojo=00"))
        #expect(context.traceID == "4bf92f3577b34da6a3ce929d0e0e4736")
        #expect(context.parent == 0x00F0_67AA_0BA9_02B7)
        #expect(context.isSampled)
        #expect(context.state == "congo=t61rcWkgMzE,rojo=00")
        #expect(TraceContext(encoded: context.encoded) == context)
        #expect(TraceContext(traceparent: Self.parent.dropLast() + "0")?.isSampled == false)
        // A later version may have more parts.
        #expect(TraceContext(traceparent: "01" + Self.parent.dropFirst(2) + "-more")?.traceID == context.traceID)
        let long = String(repeating: "a", count: TraceContext.maximumStateBytes + 1)
        #expect(TraceContext(traceparent: Self.parent, tracestate: long)?.state == nil, "the trace itself is kept")
    }

    /// The most members that a `tracestate` may have, and one more.
    private static let members = (1...32).map { "k\($0)=v" }.joined(separator: ",")

    @Test(
        "has a state that is valid, or none",
        arguments: [
            ("a=1", true), ("a=1,b=2", true), ("a=1 ,\tb=2", true), ("a=1,,b=2", true), ("fw529a3039@dt=FfD", true),
            ("0a_-*/=x y!~", true), (members, true), ("k=\(String(repeating: "v", count: 256))", true),
            ("", false), (",", false), ("a", false), ("a=", false), ("=1", false), ("A=1", false), ("a=1=2", false),
            ("a=1,a=2", false), ("a b=1", false), ("@a=1", false), ("a=\u{1}", false), ("a=\u{645}", false),
            ("a=1\t2", false), ("===,,,foo\"\\<script>", false), (members + ",more=v", false),
            ("k=\(String(repeating: "v", count: 257))", false),
        ]
    )
    func states(text: String, isValid: Bool) throws {
        let context = try #require(TraceContext(traceparent: Self.parent, tracestate: text), "the trace itself is kept")
        #expect(context.state == (isValid ? text : nil))
        #expect(TraceContext(encoded: context.encoded) == context)
    }

    @Test(
        "that is not valid is none",
        arguments: [
            "", "00", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0\u{661}",
        ]
    )
    func invalid(text: String) {
        #expect(TraceContext(traceparent: text) == nil)
    }

    @Test("is kept in the record; a damaged one costs the trace only")
    func record() throws {
        var record = NotificationRecord(
            content: [0x7B, 0x7D],
            plans: [DeliveryPlan(["a"])],
            acceptedAt: Date(millisecondsSince1970: 1)
        )
        let bare = record.encoded
        record.trace = TraceContext(traceparent: Self.parent, tracestate: "a=1")
        #expect(record.encoded == bare + [8, 28] + (record.trace?.encoded ?? []))
        #expect(NotificationRecord(encoded: record.encoded) == record)
        let damaged = try #require(NotificationRecord(encoded: bare + [8, 2, 1, 1]))
        #expect(damaged.trace == nil && damaged.content == record.content)
    }

    @Test("gives the acceptance of a notification the same span everywhere, and each another one")
    func spans() throws {
        let context = try #require(TraceContext(traceparent: Self.parent, tracestate: "a=1"))
        let (first, second) = (NotificationID(rawValue: 1), NotificationID(rawValue: 2))
        let stored = try #require(TraceContext(encoded: context.encoded))
        #expect(context.span(of: first) == stored.span(of: first))
        #expect(context.span(of: first) != context.span(of: second))
        let child = context.child(of: first)
        #expect(child.parent == context.span(of: first) && child.traceID == context.traceID)
        #expect(child.isSampled && child.state == "a=1")
    }
}
