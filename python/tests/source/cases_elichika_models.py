"""Models of Elichika's tests, written anew. Those of ESPnet have the form before Elichika's authors edited them to compile."""

import functools
import logging
import random

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np

import xcvm


class MLP(chainer.Chain):
    def __init__(self, units, out):
        super().__init__()
        with self.init_scope():
            self.l1 = L.Linear(None, units)
            self.l2 = L.Linear(None, units)
            self.l3 = L.Linear(None, out)

    def forward(self, x, t):
        h = F.relu(self.l1(x))
        h = F.relu(self.l2(h))
        return F.softmax_cross_entropy(self.l3(h), t)


class Alex(chainer.Chain):
    def __init__(self, shrink):
        super().__init__()
        with self.init_scope():
            self.conv1 = L.Convolution2D(None, 96 // shrink, 11, stride=4)
            self.conv2 = L.Convolution2D(None, 256 // shrink, 5, pad=2)
            self.conv3 = L.Convolution2D(None, 384 // shrink, 3, pad=1)
            self.fc6 = L.Linear(None, 4096 // shrink)
            self.fc7 = L.Linear(None, 10)

    def forward(self, x, t):
        h = F.max_pooling_2d(F.local_response_normalization(F.relu(self.conv1(x))), 3, stride=2)
        h = F.max_pooling_2d(F.local_response_normalization(F.relu(self.conv2(h))), 3, stride=2)
        h = F.max_pooling_2d(F.relu(self.conv3(h)), 3, stride=2)
        h = F.dropout(F.relu(self.fc6(h)))
        return F.softmax_cross_entropy(self.fc7(h), t)


class Inception(chainer.Chain):
    def __init__(self, out1, proj3, out3, proj5, out5, pool):
        super().__init__()
        with self.init_scope():
            self.conv1 = L.Convolution2D(None, out1, 1)
            self.proj3 = L.Convolution2D(None, proj3, 1)
            self.conv3 = L.Convolution2D(proj3, out3, 3, pad=1)
            self.proj5 = L.Convolution2D(None, proj5, 1)
            self.conv5 = L.Convolution2D(proj5, out5, 5, pad=2)
            self.projp = L.Convolution2D(None, pool, 1)

    def forward(self, x):
        out3 = self.conv3(F.relu(self.proj3(x)))
        out5 = self.conv5(F.relu(self.proj5(x)))
        pool = self.projp(F.max_pooling_2d(x, 3, stride=1, pad=1))
        return F.relu(F.concat((self.conv1(x), out3, out5, pool), axis=1))


class GoogLeNet(chainer.Chain):
    """Inception blocks with three losses, of which two are on the way."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.conv1 = L.Convolution2D(None, 8, 7, stride=2, pad=3)
            self.inc1 = Inception(4, 4, 6, 2, 4, 4)
            self.inc2 = Inception(4, 4, 6, 2, 4, 4)
            self.inc3 = Inception(4, 4, 6, 2, 4, 4)
            self.loss1_fc, self.loss2_fc, self.loss3_fc = L.Linear(None, 7), L.Linear(None, 7), L.Linear(None, 7)

    def forward(self, x, t):
        h = F.relu(self.conv1(x))
        h = F.local_response_normalization(F.max_pooling_2d(h, 3, stride=2), n=5)
        h = self.inc1(h)
        loss1 = F.softmax_cross_entropy(self.loss1_fc(F.average_pooling_2d(h, 5, stride=3)), t)
        h = self.inc2(F.max_pooling_2d(h, 3, stride=2))
        loss2 = F.softmax_cross_entropy(self.loss2_fc(F.average_pooling_2d(h, 3)), t)
        h = F.average_pooling_2d(self.inc3(h), 5, stride=1)
        loss3 = F.softmax_cross_entropy(self.loss3_fc(F.dropout(h, 0.4)), t)
        return 0.3 * (loss1 + loss2) + loss3


class BottleneckA(chainer.Chain):
    def __init__(self, size, width, out, stride):
        super().__init__()
        with self.init_scope():
            self.conv1, self.bn1 = L.Convolution2D(size, width, 1, stride, 0, nobias=True), L.BatchNormalization(width)
            self.conv2, self.bn2 = L.Convolution2D(width, out, 3, 1, 1, nobias=True), L.BatchNormalization(out)
            self.conv3, self.bn3 = L.Convolution2D(size, out, 1, stride, 0, nobias=True), L.BatchNormalization(out)

    def forward(self, x):
        h = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(h)) + self.bn3(self.conv3(x)))


class BottleneckB(chainer.Chain):
    def __init__(self, size, width):
        super().__init__()
        with self.init_scope():
            self.conv1, self.bn1 = L.Convolution2D(size, width, 1, 1, 0, nobias=True), L.BatchNormalization(width)
            self.conv2, self.bn2 = L.Convolution2D(width, size, 3, 1, 1, nobias=True), L.BatchNormalization(size)

    def forward(self, x):
        h = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(h)) + x)


class Blocks(chainer.ChainList):
    def __init__(self, layers, size, width, out, stride=2):
        links = [BottleneckA(size, width, out, stride)]
        links += [BottleneckB(out, width) for _ in range(layers - 1)]
        super().__init__(*links)

    def forward(self, x):
        for link in self.children():
            x = link(x)
        return x


class ResNetWithLoss(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.conv1, self.bn1 = L.Convolution2D(3, 8, 7, 2, 3), L.BatchNormalization(8)
            self.res2 = Blocks(3, 8, 4, 12, 1)
            self.res3 = Blocks(2, 12, 6, 16)
            self.fc = L.Linear(None, 10)

    def forward(self, x, t):
        h = F.max_pooling_2d(F.relu(self.bn1(self.conv1(x))), 3, stride=2)
        h = self.res3(self.res2(h))
        h = F.average_pooling_2d(h, 4, stride=1)
        return F.softmax_cross_entropy(self.fc(h), t)


class Picking(chainer.Chain):
    """Calls layers by name, in the order of assignment, and returns those that are picked."""

    def __init__(self):
        super().__init__()
        self.layer_names = []
        self._pick = ("prob",)

    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        if self._within and callable(value):
            self.layer_names.append(name)

    @property
    def pick(self):
        return self._pick[0] if len(self._pick) == 1 else self._pick

    @pick.setter
    def pick(self, value):
        self._pick = value if isinstance(value, tuple) else (value,)

    def forward(self, x):
        if self._pick is None:
            return_tuple = False
        else:
            return_tuple = len(self._pick) > 1
        found = {name: None for name in self._pick}
        h = x
        for name in self.layer_names:
            h = self[name](h)
            if name in self._pick:
                found[name] = h
        return tuple(found[name] for name in self._pick) if return_tuple else list(found.values())[0]


class ConvBNActiv(chainer.Chain):
    def __init__(self, size, out, ksize, stride=1, pad=0, activation=F.relu, **options):
        super().__init__()
        self.activation = activation
        with self.init_scope():
            self.conv, self.bn = L.Convolution2D(size, out, ksize, stride, pad, nobias=True), L.BatchNormalization(out, **options)

    def forward(self, x):
        h = self.bn(self.conv(x))
        if self.activation is None:
            return h
        return self.activation(h)


class PickedResNet(Picking):
    def __init__(self, **options):
        super().__init__()
        with self.init_scope():
            self.conv1 = ConvBNActiv(3, 8, 7, 2, 3, **options)
            self.pool1 = lambda x: F.max_pooling_2d(x, ksize=3, stride=2)
            self.res2 = Blocks(2, 8, 4, 12, 1)
            self.res3 = Blocks(2, 12, 6, 16)
            self.pool5 = lambda x: F.average_pooling_2d(x, (4, 4))
            self.fc6 = L.Linear(None, 10)
            self.prob = F.softmax


class PaddedLSTM(chainer.Chain):
    """An LSTM over padded sequences, with masks."""

    def __init__(self, hidden, batch, length):
        super().__init__()
        with self.init_scope():
            self.l = L.Linear(hidden * 2, hidden * 4)
        self.hidden, self.batch, self.length = hidden, batch, length

    def forward(self, xs, h, c, mask):
        inputs = F.pad_sequence(xs)
        x = input = gate = i = o = f = nc = nh = m = pmask = nmask = None
        for time in range(self.length):
            x = inputs[:, time]
            input = F.concat((x, h), axis=1)
            gate = self.l(input)
            i = F.sigmoid(gate[:, 0 : self.hidden])
            o = F.sigmoid(gate[:, self.hidden : self.hidden * 2])
            f = F.sigmoid(gate[:, self.hidden * 2 : self.hidden * 3])
            nc = F.tanh(gate[:, self.hidden * 3 : self.hidden * 4])
            nc = f * c + i * nc
            nh = o * F.tanh(nc)
            m = mask[:, time]
            pmask = F.reshape(m, (self.batch,))
            pmask = F.broadcast_to(F.expand_dims(pmask, axis=1), (self.batch, self.hidden))
            nmask = 1.0 - pmask
            h = nh * pmask + h * nmask
        return h


# ---- StatelessLSTM ----


def extract_gates(x):
    r = F.reshape(x, (len(x), x.shape[1] // 4, 4) + x.shape[2:])
    r = F.separate(r, axis=2)
    return r[0], r[1], r[2], r[3]


class LSTMBase(chainer.Chain):
    def __init__(self, in_size, out_size=None):
        if out_size is None:
            out_size, in_size = in_size, None
        super().__init__()
        self.state_size = out_size
        with self.init_scope():
            self.upward = L.Linear(in_size, 4 * out_size)
            self.lateral = L.Linear(out_size, 4 * out_size, nobias=True)


class StatelessLSTM(LSTMBase):
    def forward(self, c, h, x):
        if self.upward.W.data is None:
            self.upward.W.initialize((4 * self.state_size, x.size // x.shape[0]))
        lstm_in = self.upward(x)
        if h is not None:
            lstm_in += self.lateral(h)
        if c is None:
            xp = self.xp
            c = chainer.Variable(xp.zeros((x.shape[0], self.state_size), dtype=x.dtype))
        a, i, f, o = extract_gates(lstm_in)
        c_next = F.tanh(a) * F.sigmoid(i) + F.sigmoid(f) * c
        return c_next, F.sigmoid(o) * F.tanh(c_next)


class StatelessLSTMProduct(chainer.Chain):
    def __init__(self, in_size, out_size):
        super().__init__()
        with self.init_scope():
            self.l = StatelessLSTM(in_size, out_size)

    def forward(self, c, h, x):
        c, h = self.l(c, h, x)
        return c * h


# ---- ESPnet ----


class VGG2L(chainer.Chain):
    def __init__(self, in_channel=1, width=4):
        super().__init__()
        with self.init_scope():
            self.conv1_1 = L.Convolution2D(in_channel, width, 3, stride=1, pad=1)
            self.conv1_2 = L.Convolution2D(width, width, 3, stride=1, pad=1)
            self.conv2_1 = L.Convolution2D(width, 2 * width, 3, stride=1, pad=1)
            self.conv2_2 = L.Convolution2D(2 * width, 2 * width, 3, stride=1, pad=1)
        self.in_channel = in_channel

    def forward(self, xs, ilens):
        logging.info(self.__class__.__name__ + " input lengths: " + str(ilens))
        xs = F.pad_sequence(xs)
        xs = F.swapaxes(F.reshape(xs, (xs.shape[0], xs.shape[1], self.in_channel, xs.shape[2] // self.in_channel)), 1, 2)
        xs = F.relu(self.conv1_1(xs))
        xs = F.relu(self.conv1_2(xs))
        xs = F.max_pooling_2d(xs, 2, stride=2)
        xs = F.relu(self.conv2_1(xs))
        xs = F.relu(self.conv2_2(xs))
        xs = F.max_pooling_2d(xs, 2, stride=2)
        ilens = self.xp.array(self.xp.ceil(self.xp.array(ilens, dtype=np.float32) / 2), dtype=np.int32)
        ilens = self.xp.array(self.xp.ceil(self.xp.array(ilens, dtype=np.float32) / 2), dtype=np.int32)
        xs = F.swapaxes(xs, 1, 2)
        xs = F.reshape(xs, (xs.shape[0], xs.shape[1], xs.shape[2] * xs.shape[3]))
        xs = [xs[i, : ilens[i], :] for i in range(len(ilens))]
        return xs, ilens


class BLSTM(chainer.Chain):
    def __init__(self, idim, elayers, cdim, hdim, dropout):
        super().__init__()
        with self.init_scope():
            self.nblstm = L.NStepBiLSTM(elayers, idim, cdim, dropout)
            self.l_last = L.Linear(cdim * 2, hdim)

    def forward(self, xs, ilens):
        logging.info(self.__class__.__name__ + " input lengths: " + str(ilens))
        hy, cy, ys = self.nblstm(None, None, xs)
        ys = self.l_last(F.vstack(ys))
        xs = F.split_axis(ys, np.cumsum(ilens[:-1]), axis=0)
        del hy, cy
        xs = F.split_axis(F.tanh(F.vstack(xs)), np.cumsum(ilens[:-1]), axis=0)
        if not isinstance(xs, tuple):
            xs = [xs]
        return xs, ilens


class Padded(chainer.Chain):
    """The sequences of an encoder as one array, whose gradient is known."""

    def __init__(self, encoder):
        super().__init__()
        with self.init_scope():
            self.encoder = encoder

    def forward(self, xs, ilens):
        xs, ilens = self.encoder(xs, ilens)
        return F.pad_sequence(xs)


def linear_tensor(linear, x):
    y = linear(F.reshape(x, (-1, x.shape[-1])))
    return F.reshape(y, x.shape[:-1] + (-1,))


class Attention(chainer.Chain):
    def __init__(self, eprojs, dunits, att_dim):
        super().__init__()
        with self.init_scope():
            self.mlp_enc = L.Linear(eprojs, att_dim)
            self.mlp_dec = L.Linear(dunits, att_dim)
        self.dunits = dunits
        self.h_length = None
        self.enc_h = None
        self.pre_compute_enc_h = None

    def reset(self):
        self.h_length = None
        self.enc_h = None
        self.pre_compute_enc_h = None


class AttDot(Attention):
    def forward(self, enc_hs, dec_z, att_prev, scaling=2.0):
        batch = len(enc_hs)
        if self.pre_compute_enc_h is None:
            self.enc_h = F.pad_sequence(enc_hs)
            self.h_length = self.enc_h.shape[1]
            self.pre_compute_enc_h = F.tanh(linear_tensor(self.mlp_enc, self.enc_h))
        if dec_z is None:
            dec_z = chainer.Variable(self.xp.zeros((batch, self.dunits), dtype=np.float32))
        else:
            dec_z = F.reshape(dec_z, (batch, self.dunits))
        u = F.broadcast_to(F.expand_dims(F.tanh(self.mlp_dec(dec_z)), 1), self.pre_compute_enc_h.shape)
        e = F.sum(self.pre_compute_enc_h * u, axis=2)
        w = F.softmax(scaling * e)
        c = F.sum(self.enc_h * F.broadcast_to(F.expand_dims(w, 2), self.enc_h.shape), axis=1)
        return c, w


class AttLoc(Attention):
    def __init__(self, eprojs, dunits, att_dim, aconv_chans, aconv_filts):
        super().__init__(eprojs, dunits, att_dim)
        with self.init_scope():
            self.mlp_att = L.Linear(aconv_chans, att_dim, nobias=True)
            self.loc_conv = L.Convolution2D(1, aconv_chans, ksize=(1, 2 * aconv_filts + 1), pad=(0, aconv_filts))
            self.gvec = L.Linear(att_dim, 1)

    def forward(self, enc_hs, dec_z, att_prev, scaling=2.0):
        batch = len(enc_hs)
        if self.pre_compute_enc_h is None:
            self.enc_h = F.pad_sequence(enc_hs)
            self.h_length = self.enc_h.shape[1]
            self.pre_compute_enc_h = linear_tensor(self.mlp_enc, self.enc_h)
        if dec_z is None:
            dec_z = chainer.Variable(self.xp.zeros((batch, self.dunits), dtype=np.float32))
        else:
            dec_z = F.reshape(dec_z, (batch, self.dunits))
        if att_prev is None:
            att_prev = [self.xp.full(hh.shape[0], 1.0 / hh.shape[0], dtype=np.float32) for hh in enc_hs]
            att_prev = [chainer.Variable(att) for att in att_prev]
            att_prev = F.pad_sequence(att_prev)
        att_conv = self.loc_conv(F.reshape(att_prev, (batch, 1, 1, self.h_length)))
        att_conv = F.swapaxes(F.squeeze(att_conv, axis=2), 1, 2)
        att_conv = linear_tensor(self.mlp_att, att_conv)
        dec_z_tiled = F.broadcast_to(F.expand_dims(self.mlp_dec(dec_z), 1), self.pre_compute_enc_h.shape)
        e = F.squeeze(linear_tensor(self.gvec, F.tanh(att_conv + self.pre_compute_enc_h + dec_z_tiled)), axis=2)
        w = F.softmax(scaling * e)
        c = F.sum(self.enc_h * F.broadcast_to(F.expand_dims(w, 2), self.enc_h.shape), axis=1)
        return c, w


class AttDotProduct(chainer.Chain):
    def __init__(self, *sizes):
        super().__init__()
        with self.init_scope():
            self.l = AttDot(*sizes)

    def forward(self, enc_hs, dec_z, att_prev):
        c, w = self.l(enc_hs, dec_z, att_prev)
        return F.matmul(c, w)


class Decoder(chainer.Chain):
    def __init__(self, eprojs, odim, dlayers, dunits, sos, eos, att, sampling_probability=0.0):
        super().__init__()
        with self.init_scope():
            self.embed = L.EmbedID(odim, dunits)
            self.lstm0 = StatelessLSTM(dunits + eprojs, dunits)
            for layer in range(1, dlayers):
                setattr(self, "lstm%d" % layer, StatelessLSTM(dunits, dunits))
            self.output = L.Linear(dunits, odim)
            self.att = att
        self.loss = None
        self.dlayers, self.dunits, self.sos, self.eos = dlayers, dunits, sos, eos
        self.sampling_probability = sampling_probability

    def forward(self, hs, ys):
        self.loss = None
        eos = self.xp.array([self.eos], "i")
        sos = self.xp.array([self.sos], "i")
        ys_in = [F.concat([sos, y], axis=0) for y in ys]
        ys_out = [F.concat([y, eos], axis=0) for y in ys]
        pad_ys_in = F.pad_sequence(ys_in, padding=self.eos)
        pad_ys_out = F.pad_sequence(ys_out, padding=-1)
        batch = pad_ys_out.shape[0]
        olength = pad_ys_out.shape[1]
        logging.info(self.__class__.__name__ + " input lengths:  " + str(self.xp.array([h.shape[0] for h in hs])))
        c_list = [None]
        z_list = [None]
        for layer in range(1, self.dlayers):
            c_list.append(None)
            z_list.append(None)
        att_w = None
        z_all = []
        self.att.reset()
        eys = self.embed(pad_ys_in)
        eys = F.separate(eys, axis=1)
        for i in range(olength):
            att_c, att_w = self.att(hs, z_list[0], att_w)
            if i > 0 and random.random() < self.sampling_probability:
                logging.info(" scheduled sampling ")
                z_out = self.output(z_all[-1])
                z_out = F.argmax(F.log_softmax(z_out), axis=1)
                z_out = self.embed(z_out)
                ey = F.hstack((z_out, att_c))
            else:
                ey = F.hstack((eys[i], att_c))
            c_list[0], z_list[0] = self.lstm0(c_list[0], z_list[0], ey)
            for layer in range(1, self.dlayers):
                c_list[layer], z_list[layer] = self["lstm%d" % layer](c_list[layer], z_list[layer], z_list[layer - 1])
            z_all.append(z_list[-1])
        z_all = F.reshape(F.stack(z_all, axis=1), (batch * olength, self.dunits))
        y_all = self.output(z_all)
        self.loss = F.softmax_cross_entropy(y_all, F.flatten(pad_ys_out))
        self.loss *= np.mean([len(x) for x in ys_in]) - 1
        acc = F.accuracy(y_all, F.flatten(pad_ys_out), ignore_label=-1)
        return self.loss, acc


class Encoder(chainer.Chain):
    def __init__(self, etype, idim, elayers, eunits, eprojs):
        super().__init__()
        with self.init_scope():
            if etype == "blstm":
                self.enc1 = BLSTM(idim, elayers, eunits, eprojs, 0)
            elif etype == "vggblstm":
                self.enc1 = VGG2L(1)
                self.enc2 = BLSTM(8 * -(-(-(-idim // 2)) // 2), elayers, eunits, eprojs, 0)
        self.etype = etype

    def forward(self, xs, ilens):
        if self.etype == "vggblstmp":
            xs, ilens = self.enc1(xs, ilens)
            xs, ilens = self.enc2(xs, ilens, True)
        elif self.etype == "blstm":
            xs, ilens = self.enc1(xs, ilens)
        elif self.etype == "vggblstm":
            xs, ilens = self.enc1(xs, ilens)
            xs, ilens = self.enc2(xs, ilens)
        else:
            raise ValueError("unknown encoder " + self.etype)
        return xs, ilens


class E2E(chainer.Chain):
    def __init__(self, etype="vggblstm", sampling_probability=0.0):
        super().__init__()
        with self.init_scope():
            self.enc = Encoder(etype, 5, 2, 3, 3)
            self.dec = Decoder(3, 11, 2, 4, 10, 10, AttLoc(3, 4, 5, 7, 6), sampling_probability)

    def forward(self, xs, ilens, ys):
        hs, ilens = self.enc(xs, ilens)
        loss, acc = self.dec(hs, ys)
        return loss, acc


class Loss(chainer.Chain):
    """The loss of a model that returns more."""

    def __init__(self, model):
        super().__init__()
        with self.init_scope():
            self.model = model

    def forward(self, *xs):
        return self.model(*xs)[0]


def sequences(f32, lengths, width):
    return [f32(n, width) for n in lengths]


def cases(f32, random_state):
    """Return the cases of models: names, what makes the object, and arguments."""
    labels = random_state.randint(4, size=10)
    lstm = f32(3, 4), f32(3, 4), f32(3, 7)
    lengths = np.array([4, 3, 2])
    mask = (np.arange(4)[None] < lengths[:, None]).astype(np.float32)
    long = np.array([27, 20, 9])
    hs, ys = sequences(f32, lengths, 3), random_state.randint(2, 10, size=(3, 4)).astype(np.int32)
    att = {"": lambda: AttDot(3, 4, 5), "attloc": lambda: AttLoc(3, 4, 5, 7, 6)}
    return [
        ("model/MLP:main", lambda: MLP(8, 4), (f32(10, 3), labels)),
        ("model/MLP:main+", lambda: MLP(8, 4), (f32(10, 3), labels)),
        ("model/Alex:main", lambda: Alex(24), (f32(2, 3, 127, 127), labels[:2])),
        ("model/GoogleNet:main", GoogLeNet, (f32(2, 3, 67, 67), labels[:2])),
        ("model/Resnet_with_loss:main", ResNetWithLoss, (f32(2, 3, 35, 35), labels[:2])),
        ("chainercv_model/resnet/resnet:main", lambda: PickedResNet(eps=1e-4), (f32(2, 3, 35, 35),)),
        ("model/MyLSTM:main", lambda: PaddedLSTM(5, 3, 4), (sequences(f32, lengths, 5), f32(3, 5), f32(3, 5), mask)),
        ("model/StatelessLSTM:main", lambda: StatelessLSTM(7, 4), lstm),
        ("model/StatelessLSTM:main+", lambda: StatelessLSTMProduct(7, 4), lstm),
        ("model/EspNet_VGG2L:VGGL", VGG2L, (sequences(f32, long, 5), long)),
        ("model/EspNet_VGG2L:VGGL_backprop+", lambda: Padded(VGG2L()), (sequences(f32, long, 5), long)),
        ("model/EspNet_BLSTM:main", lambda: BLSTM(5, 2, 3, 7, 0), (sequences(f32, lengths, 5), lengths)),
        ("model/EspNet_BLSTM:main+", lambda: Padded(BLSTM(5, 2, 3, 7, 0)), (sequences(f32, lengths, 5), lengths)),
        ("model/EspNet_AttDot:main", att[""], (hs, None, None)),
        ("model/EspNet_AttDot:main+", lambda: AttDotProduct(3, 4, 5), (hs, f32(3, 4), None)),
        ("model/EspNet_AttLoc:main", att["attloc"], (hs, None, None)),
        *[
            (f"model/EspNet_Decoder:{name or 'main'}{plus}", functools.partial(_decoder, make, plus), (hs, ys))
            for name, make in att.items()
            for plus in ("", "+")
        ],
        ("model/EspNet_E2E:main", E2E, (sequences(f32, long, 5), long, ys)),
        # The gradient of an LSTM needs a known number of steps, so the lengths are constants.
        ("model/EspNet_E2E:main+", lambda: Loss(E2E()), (sequences(f32, long, 5), xcvm.const(long), ys)),
    ]


def _decoder(make, plus):
    decoder = Decoder(3, 11, 2, 4, 10, 10, make())
    return Loss(decoder) if plus else decoder
