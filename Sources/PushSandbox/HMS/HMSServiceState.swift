internal import Foundation
internal import PushCore
internal import Synchronization

/// What the two listeners of an HMS simulator share.
final class HMSServiceState: Sendable {
    let configuration: HMSSimulatorConfiguration
    private let state: Mutex<HMSState>
    private let changeable: Mutex<HMSSimulatorConfiguration>
    private let receiptOptions = Mutex(HMSReceiptPlan())
    private let listener = Mutex<(@Sendable () -> Void)?>(nil)

    init(_ configuration: HMSSimulatorConfiguration, seed: UInt64) {
        self.configuration = configuration
        changeable = Mutex(configuration)
        state = Mutex(HMSState(seed: seed))
    }

    /// The settings in force, some of which change while the simulator runs.
    var settings: HMSSimulatorConfiguration {
        get { changeable.withLock { $0 } }
        set { changeable.withLock { $0 = newValue } }
    }

    /// Where receipts go and in which shape.
    var receipts: HMSReceiptPlan {
        get { receiptOptions.withLock { $0 } }
        set { receiptOptions.withLock { $0 = newValue } }
    }

    func withState<Value: Sendable>(_ body: (inout sending HMSState) throws -> sending Value) rethrows -> Value {
        try state.withLock(body)
    }

    /// Calls back whenever receipts are owed.
    func onReceipts(_ callback: @escaping @Sendable () -> Void) { listener.withLock { $0 = callback } }

    /// Says that receipts are owed.
    func signalReceipts() { listener.withLock { $0 }?() }
}
