"""Messages as they come, on one gRPC stream, with nothing but stubs made from proto/flotilla.proto."""

import queue
import sys

import flotilla_pb2 as fl
import flotilla_pb2_grpc
import grpc

address = sys.argv[1] if len(sys.argv) > 1 else "localhost:7650"
with grpc.insecure_channel(address) as channel:
    flotilla = flotilla_pb2_grpc.FlotillaStub(channel)
    flotilla.Produce(fl.ProduceRequest(topic="mails", records=[fl.Record(payload=b"mail %d" % n) for n in range(3)]))

    requests = queue.SimpleQueue()
    opened = fl.SubscribeRequest.Open(topic="mails", group="senders", member="sender-1", credit=100)
    requests.put(fl.SubscribeRequest(open=opened))
    left = 3
    stream = flotilla.Subscribe(iter(requests.get, None))
    for reply in stream:
        for message in reply.messages:
            print("sent", message.payload.decode())
        leases = [message.lease for message in reply.messages]
        requests.put(fl.SubscribeRequest(ack=fl.AckRequest(leases=leases)))
        left -= len(leases)
        if not left:
            break
    requests.put(None)
    stream.cancel()
