import NIOCore
import NIOPosix
import ChaparCore

/// Detects when an unreachable server can be reached again, so that no message has to try it first.
///
/// While it watches, it opens a bare TCP connection about twice a second and closes it at once. It gives up 330 s after
/// the pool's last call. Event loop only.
final class ReachWatch {
    private static let pause = TimeAmount.milliseconds(500)
    /// The time after the last call for which it watches: longer than a breaker with default settings stays open.
    private static let span = TimeAmount.seconds(330)

    private let loop: any EventLoop
    private let server: HTTPEndpoint
    /// The server's name, or the address that was checked.
    private let host: String
    private var lastCall = NIODeadline.now()
    private var next: Scheduled<Void>?
    /// The number of this watch; attempts of earlier ones are ignored.
    private var number = 0
    private var isWatching = false

    /// Makes one for the first peer that a pool connects to: its endpoint, or its proxy.
    init(_ configuration: HTTPPoolConfiguration, loop: any EventLoop) {
        server = configuration.proxy ?? configuration.endpoint
        host = configuration.connectHost
        self.loop = loop
    }

    /// Records the time of a call.
    func noteCall() { lastCall = .now() }

    /// Watches until the server can be reached, and then calls `isBack` once; does nothing when it watches already.
    ///
    /// It makes no attempt while `isBusy`: waiting calls try by themselves.
    func start(isBusy: @escaping () -> Bool, _ isBack: @escaping () -> Void) {
        guard !isWatching else { return }
        isWatching = true
        number += 1
        scheduleTry(Watch(number: number, isBusy: isBusy, isBack: isBack))
    }

    /// Stops watching.
    func stop() {
        guard isWatching else { return }
        isWatching = false
        next?.cancel()
        next = nil
    }

    private struct Watch {
        let number: Int
        let isBusy: () -> Bool
        let isBack: () -> Void
    }

    private func scheduleTry(_ watch: Watch) {
        guard NIODeadline.now() - lastCall < Self.span else { return stop() }
        let bound = NIOLoopBound((self, watch), eventLoop: loop)
        next = loop.scheduleTask(in: Self.pause) { bound.value.0.attempt(bound.value.1) }
    }

    private func attempt(_ watch: Watch) {
        guard !watch.isBusy() else { return scheduleTry(watch) }
        let bound = NIOLoopBound((self, watch), eventLoop: loop)
        ClientBootstrap(group: loop)
            .connectTimeout(.seconds(2))
            .connect(host: host, port: server.port)
            .hop(to: loop)
            .whenComplete { result in
                if case .success(let channel) = result { channel.close(promise: nil) }
                let (owner, watch) = bound.value
                guard owner.isWatching, owner.number == watch.number else { return }
                guard case .success = result else { return owner.scheduleTry(watch) }
                owner.stop()
                watch.isBack()
            }
    }
}
