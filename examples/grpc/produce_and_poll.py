"""A producer and a worker over gRPC, with nothing but stubs made from proto/flotilla.proto."""

import sys

import flotilla_pb2 as fl
import flotilla_pb2_grpc
import grpc

address = sys.argv[1] if len(sys.argv) > 1 else "localhost:7650"
with grpc.insecure_channel(address) as channel:
    flotilla = flotilla_pb2_grpc.FlotillaStub(channel)

    reply = flotilla.Produce(
        fl.ProduceRequest(
            topic="orders", records=[fl.Record(payload=b"order 1", key=b"42"), fl.Record(payload=b"order 2")]
        )
    )
    print("stored at", [(receipt.partition, receipt.offset) for receipt in reply.receipts])

    work = {"topic": "orders", "group": "workers"}
    done = 0
    while done < 2:
        polled = flotilla.Poll(fl.PollRequest(**work, member="worker-1", max_messages=16, wait_ms=20_000))
        for message in polled.messages:
            print("handled", message.payload.decode(), "attempt", message.attempt)
            done += 1
        flotilla.Ack(fl.AckRequest(**work, leases=[message.lease for message in polled.messages]))

    try:
        flotilla.Ack(fl.AckRequest(**work, leases=[message.lease for message in polled.messages]))
    except grpc.RpcError as error:
        details = dict(error.trailing_metadata())
        print(error.code().name, details["flotilla-error"], "retryable:", details["flotilla-retryable"])
